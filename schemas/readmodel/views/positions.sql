CREATE OR REPLACE VIEW {{.Views}}.positions{{.OnCluster}} (
    profile_id String COMMENT 'Whose position it is',
    position UInt32 COMMENT 'Its place in the record, the newest first, from 1',
    title String COMMENT 'Title; empty when not known',
    company String COMMENT 'Name of the company; empty when not known',
    company_key String COMMENT 'What companies are told apart by: the id where the record has one, or where all others of its name that have one have the same; else the name in lower case',
    company_id String COMMENT 'Id of the company; empty when the record has none',
    location String COMMENT 'Location as free text; empty when not known',
    started Nullable(Date32) COMMENT 'First day; a month or a year alone means its first day',
    ended Nullable(Date32) COMMENT 'Last day likewise; null when it goes on or is not known',
    is_current Bool COMMENT 'The position is held now',
    months Nullable(Int32) COMMENT 'Months from started to ended, or to today; null when not known',
    seniority LowCardinality(String) COMMENT 'By words of the title: executive, director, manager, lead, senior, junior, intern; else staff; empty without a title'
) AS
SELECT
    profile_id,
    position,
    title,
    company,
    multiIf(company_id != '', company_id, named.id != '', named.id, lowerUTF8(company)) AS company_key,
    company_id,
    location,
    if(start_ms = -9223372036854775808, NULL, toDate32(fromUnixTimestamp64Milli(start_ms, 'UTC'))) AS started,
    if(end_ms = -9223372036854775808, NULL, toDate32(fromUnixTimestamp64Milli(end_ms, 'UTC'))) AS ended,
    current = 1 AS is_current,
    dateDiff('month', started, coalesce(ended, if(current = 1, toDate32(today()), NULL))) AS months,
    multiIf(
        title = '', '',
        match(title, '(?i)\\b(ceo|cto|cfo|coo|chief|founder|co-founder|president|owner|partner)\\b')
            AND NOT match(title, '(?i)\\b(vice president|chief of staff|assistant|(product|process|service) owner|(business|channel) partner|partner (manager|success|sales|marketing|development))\\b'), 'executive',
        match(title, '(?i)\\b(vp|vice president|director|head of)\\b'), 'director',
        match(title, '(?i)\\bmanager\\b'), 'manager',
        match(title, '(?i)\\b(lead|principal|staff)\\b'), 'lead',
        match(title, '(?i)\\b(senior|sr)\\b'), 'senior',
        match(title, '(?i)\\b(junior|jr)\\b'), 'junior',
        match(title, '(?i)\\b(intern|trainee|apprentice)\\b'), 'intern',
        'staff') AS seniority
FROM
(
    SELECT
        profile_id,
        position,
        title,
        replaceRegexpAll(company_name, '^\\s+|\\s+$', '') AS company,
        company_id,
        location,
        start_ms,
        end_ms,
        current
    FROM {{.Tables}}.search_people FINAL
    ARRAY JOIN
        arrayEnumerate(experience_title) AS position,
        experience_title AS title,
        experience_company_name AS company_name,
        experience_company_id AS company_id,
        experience_location AS location,
        experience_start_date AS start_ms,
        experience_end_date AS end_ms,
        experience_is_current AS current
    WHERE NOT deleted
) AS entry
ANY LEFT JOIN
(
    SELECT lowerUTF8(replaceRegexpAll(name, '^\\s+|\\s+$', '')) AS name, any(company_id) AS id
    FROM {{.Tables}}.search_people FINAL
    ARRAY JOIN experience_company_name AS name, experience_company_id AS company_id
    WHERE NOT deleted AND name != '' AND company_id != ''
    GROUP BY name
    HAVING uniqExact(company_id) = 1
) AS named ON named.name = lowerUTF8(entry.company)
COMMENT 'What people worked as, where and when: one row for each entry of their experience';
