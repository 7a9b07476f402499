-- owner: projector
ALTER TABLE {{.Local "search_people"}}{{.OnCluster}}
    ADD INDEX IF NOT EXISTS profile_headline_times_index arrayFilter(w -> notEmpty(w), arrayMap((w, n, m) -> if(bitTest(n + m, m), concat(w, '\0', toString(m)), ''), profile_headline_repeats, arrayEnumerateUniq(profile_headline_repeats), arrayMap(m -> least(m, 63), arrayMap(m -> m - 1, arrayReverse(arrayEnumerateUniq(arrayReverse(profile_headline_repeats))))))) TYPE text(tokenizer = 'array'),
    ADD INDEX IF NOT EXISTS profile_summary_times_index arrayFilter(w -> notEmpty(w), arrayMap((w, n, m) -> if(bitTest(n + m, m), concat(w, '\0', toString(m)), ''), profile_summary_repeats, arrayEnumerateUniq(profile_summary_repeats), arrayMap(m -> least(m, 63), arrayMap(m -> m - 1, arrayReverse(arrayEnumerateUniq(arrayReverse(profile_summary_repeats))))))) TYPE text(tokenizer = 'array'),
    ADD INDEX IF NOT EXISTS experience_title_times_index arrayFilter(w -> notEmpty(w), arrayMap((w, n, m) -> if(bitTest(n + m, m), concat(w, '\0', toString(m)), ''), experience_title_repeats, arrayEnumerateUniq(experience_title_repeats), arrayMap(m -> least(m, 63), arrayMap(m -> m - 1, arrayReverse(arrayEnumerateUniq(arrayReverse(experience_title_repeats))))))) TYPE text(tokenizer = 'array'),
    ADD INDEX IF NOT EXISTS experience_company_name_times_index arrayFilter(w -> notEmpty(w), arrayMap((w, n, m) -> if(bitTest(n + m, m), concat(w, '\0', toString(m)), ''), experience_company_name_repeats, arrayEnumerateUniq(experience_company_name_repeats), arrayMap(m -> least(m, 63), arrayMap(m -> m - 1, arrayReverse(arrayEnumerateUniq(arrayReverse(experience_company_name_repeats))))))) TYPE text(tokenizer = 'array');
ALTER TABLE {{.Local "search_people"}}{{.OnCluster}}
    MATERIALIZE INDEX profile_headline_times_index,
    MATERIALIZE INDEX profile_summary_times_index,
    MATERIALIZE INDEX experience_title_times_index,
    MATERIALIZE INDEX experience_company_name_times_index
    SETTINGS mutations_sync = 2;
