-- owner: projector
{{range .Everywhere "search_people"}}
ALTER TABLE {{.}}{{$.OnCluster}}
    ADD COLUMN IF NOT EXISTS profile_headline_times Array(String) DEFAULT arrayFilter(w -> notEmpty(w), arrayMap((w, n, m) -> if(bitTest(n + m, m), concat(w, '\0', toString(m)), ''), profile_headline_repeats, arrayEnumerateUniq(profile_headline_repeats), arrayMap(m -> least(m, 63), arrayMap(m -> m - 1, arrayReverse(arrayEnumerateUniq(arrayReverse(profile_headline_repeats))))))) COMMENT 'Each repeated token, a zero byte and a bit of the number of its repeats' AFTER profile_headline_repeats,
    ADD COLUMN IF NOT EXISTS profile_summary_times Array(String) DEFAULT arrayFilter(w -> notEmpty(w), arrayMap((w, n, m) -> if(bitTest(n + m, m), concat(w, '\0', toString(m)), ''), profile_summary_repeats, arrayEnumerateUniq(profile_summary_repeats), arrayMap(m -> least(m, 63), arrayMap(m -> m - 1, arrayReverse(arrayEnumerateUniq(arrayReverse(profile_summary_repeats))))))) COMMENT 'Each repeated token, a zero byte and a bit of the number of its repeats' AFTER profile_summary_repeats,
    ADD COLUMN IF NOT EXISTS experience_title_times Array(String) DEFAULT arrayFilter(w -> notEmpty(w), arrayMap((w, n, m) -> if(bitTest(n + m, m), concat(w, '\0', toString(m)), ''), experience_title_repeats, arrayEnumerateUniq(experience_title_repeats), arrayMap(m -> least(m, 63), arrayMap(m -> m - 1, arrayReverse(arrayEnumerateUniq(arrayReverse(experience_title_repeats))))))) COMMENT 'Each repeated token, a zero byte and a bit of the number of its repeats' AFTER experience_title_repeats,
    ADD COLUMN IF NOT EXISTS experience_company_name_times Array(String) DEFAULT arrayFilter(w -> notEmpty(w), arrayMap((w, n, m) -> if(bitTest(n + m, m), concat(w, '\0', toString(m)), ''), experience_company_name_repeats, arrayEnumerateUniq(experience_company_name_repeats), arrayMap(m -> least(m, 63), arrayMap(m -> m - 1, arrayReverse(arrayEnumerateUniq(arrayReverse(experience_company_name_repeats))))))) COMMENT 'Each repeated token, a zero byte and a bit of the number of its repeats' AFTER experience_company_name_repeats;
{{end}}
ALTER TABLE {{.Local "search_people"}}{{.OnCluster}}
    MATERIALIZE COLUMN profile_headline_times,
    MATERIALIZE COLUMN profile_summary_times,
    MATERIALIZE COLUMN experience_title_times,
    MATERIALIZE COLUMN experience_company_name_times
    SETTINGS mutations_sync = 2;
ALTER TABLE {{.Local "search_people"}}{{.OnCluster}}
    ADD INDEX IF NOT EXISTS profile_headline_times_text profile_headline_times TYPE text(tokenizer = 'array'),
    ADD INDEX IF NOT EXISTS profile_summary_times_text profile_summary_times TYPE text(tokenizer = 'array'),
    ADD INDEX IF NOT EXISTS experience_title_times_text experience_title_times TYPE text(tokenizer = 'array'),
    ADD INDEX IF NOT EXISTS experience_company_name_times_text experience_company_name_times TYPE text(tokenizer = 'array');
ALTER TABLE {{.Local "search_people"}}{{.OnCluster}}
    MATERIALIZE INDEX profile_headline_times_text,
    MATERIALIZE INDEX profile_summary_times_text,
    MATERIALIZE INDEX experience_title_times_text,
    MATERIALIZE INDEX experience_company_name_times_text
    SETTINGS mutations_sync = 2;
ALTER TABLE {{.Local "search_people"}}{{.OnCluster}}
    DROP INDEX IF EXISTS profile_headline_times_index,
    DROP INDEX IF EXISTS profile_summary_times_index,
    DROP INDEX IF EXISTS experience_title_times_index,
    DROP INDEX IF EXISTS experience_company_name_times_index;
