-- owner: projector
ALTER TABLE {{.Local "search_people"}}{{.OnCluster}} MODIFY SETTING min_age_to_force_merge_seconds = 300, min_age_to_force_merge_on_partition_only = 1;
