-- owner: projector
ALTER TABLE {{.Local "search_people"}}{{.OnCluster}} MODIFY SETTING min_bytes_for_wide_part = 268435456;
