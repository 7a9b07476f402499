-- owner: projector
ALTER TABLE {{.Local "lookups"}}{{.OnCluster}} MODIFY SETTING fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;
ALTER TABLE {{.Local "network_people"}}{{.OnCluster}} MODIFY SETTING fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;
ALTER TABLE {{.Local "search_people"}}{{.OnCluster}} MODIFY SETTING fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;
ALTER TABLE {{.Local "codehost_people"}}{{.OnCluster}} MODIFY SETTING fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;
ALTER TABLE {{.Local "codehost_repos"}}{{.OnCluster}} MODIFY SETTING fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;
ALTER TABLE {{.Local "codehost_commits"}}{{.OnCluster}} MODIFY SETTING fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;
ALTER TABLE {{.Local "codehost_lists"}}{{.OnCluster}} MODIFY SETTING fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;
ALTER TABLE {{.Local "network_companies"}}{{.OnCluster}} MODIFY SETTING fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;
ALTER TABLE {{.Local "microblog_people"}}{{.OnCluster}} MODIFY SETTING fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;
ALTER TABLE {{.Local "account_links"}}{{.OnCluster}} MODIFY SETTING fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;
ALTER TABLE {{.Local "seen_versions"}}{{.OnCluster}} MODIFY SETTING fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;
ALTER TABLE {{.Local "usage_events"}}{{.OnCluster}} MODIFY SETTING fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;
ALTER TABLE {{.Local "webhook_attempts"}}{{.OnCluster}} MODIFY SETTING fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;
ALTER TABLE {{.Local "discoveries"}}{{.OnCluster}} MODIFY SETTING fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;
ALTER TABLE {{.Local "contexts"}}{{.OnCluster}} MODIFY SETTING fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;
ALTER TABLE {{.Local "discovered_links"}}{{.OnCluster}} MODIFY SETTING fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1;
