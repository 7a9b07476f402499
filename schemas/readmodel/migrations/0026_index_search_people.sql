-- owner: projector
{{range .Everywhere "search_people"}}
ALTER TABLE {{.}}{{$.OnCluster}}
    ADD COLUMN IF NOT EXISTS experience_company_url_times Array(String) DEFAULT arrayFilter(w -> notEmpty(w), arrayMap((w, n, m) -> if(bitTest(n + m, m), concat(w, '\0', toString(m)), ''), experience_company_url_repeats, arrayEnumerateUniq(experience_company_url_repeats), arrayMap(m -> least(m, 63), arrayMap(m -> m - 1, arrayReverse(arrayEnumerateUniq(arrayReverse(experience_company_url_repeats))))))) COMMENT 'Each repeated token, a zero byte and a bit of the number of its repeats' AFTER experience_company_url_repeats,
    ADD COLUMN IF NOT EXISTS experience_description_times Array(String) DEFAULT arrayFilter(w -> notEmpty(w), arrayMap((w, n, m) -> if(bitTest(n + m, m), concat(w, '\0', toString(m)), ''), experience_description_repeats, arrayEnumerateUniq(experience_description_repeats), arrayMap(m -> least(m, 63), arrayMap(m -> m - 1, arrayReverse(arrayEnumerateUniq(arrayReverse(experience_description_repeats))))))) COMMENT 'Each repeated token, a zero byte and a bit of the number of its repeats' AFTER experience_description_repeats;
{{end}}
ALTER TABLE {{.Local "search_people"}}{{.OnCluster}}
    MATERIALIZE COLUMN experience_company_url_times,
    MATERIALIZE COLUMN experience_description_times
    SETTINGS mutations_sync = 2;
ALTER TABLE {{.Local "search_people"}}{{.OnCluster}}
    ADD INDEX IF NOT EXISTS experience_company_url_times_text experience_company_url_times TYPE text(tokenizer = 'array'),
    ADD INDEX IF NOT EXISTS experience_description_times_text experience_description_times TYPE text(tokenizer = 'array'),
    ADD INDEX IF NOT EXISTS network_url_tokens_index network_url_tokens TYPE text(tokenizer = 'array'),
    ADD INDEX IF NOT EXISTS network_username_tokens_index network_username_tokens TYPE text(tokenizer = 'array'),
    ADD INDEX IF NOT EXISTS profile_personal_email_tokens_index profile_personal_email_tokens TYPE text(tokenizer = 'array');
ALTER TABLE {{.Local "search_people"}}{{.OnCluster}}
    MATERIALIZE INDEX experience_company_url_times_text,
    MATERIALIZE INDEX experience_description_times_text,
    MATERIALIZE INDEX network_url_tokens_index,
    MATERIALIZE INDEX network_username_tokens_index,
    MATERIALIZE INDEX profile_personal_email_tokens_index
    SETTINGS mutations_sync = 2;
ALTER TABLE {{.Local "search_people"}}{{.OnCluster}}
    DROP INDEX IF EXISTS network_url_tokens_filter,
    DROP INDEX IF EXISTS network_username_tokens_filter,
    DROP INDEX IF EXISTS profile_personal_email_tokens_filter;
