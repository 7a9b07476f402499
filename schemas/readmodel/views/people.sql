CREATE OR REPLACE VIEW {{.Views}}.people{{.OnCluster}} (
    profile_id String COMMENT 'Identity of the profile',
    username String COMMENT 'Profile slug',
    url String COMMENT 'Profile URL; of the username where the record has none',
    full_name String COMMENT 'Full name, else first and last name together; empty when not known',
    first_name String COMMENT 'First name, else that in the full name; empty when not known',
    last_name String COMMENT 'Last name, else that in the full name; empty when not known',
    headline String COMMENT 'Headline as the person wrote it, without e-mail addresses',
    country String COMMENT 'Country of the location, also where only its text or code names it; empty when not known',
    country_code String COMMENT 'Its two-letter code; empty when the country is not known',
    connections Nullable(Int64) COMMENT 'Number of connections',
    followers Nullable(Int64) COMMENT 'Number of followers',
    current_title String COMMENT 'Title, else summary, of current_position: that of the record, else its ongoing position that began last; empty when there is none',
    current_company String COMMENT 'Company of that position',
    positions UInt32 COMMENT 'Number of positions in the record, at most 100',
    has_codehost Bool COMMENT 'The profile itself names an account of the code host',
    updated_at DateTime('UTC') COMMENT 'When the record was crawled, in the version whose content is shown'
) AS
SELECT
    s.profile_id AS profile_id,
    s.network_username AS username,
    s.network_url AS url,
    s.profile_full_name AS full_name,
    s.profile_first_name AS first_name,
    s.profile_last_name AS last_name,
    replaceRegexpAll(s.profile_headline, '[^\\s<>()"]+@[^\\s<>()"]+', '[e-mail removed]') AS headline,
    s.profile_location_country AS country,
    s.profile_location_country_code AS country_code,
    nullIf(s.profile_connections, -9223372036854775808) AS connections,
    nullIf(s.profile_followers, -9223372036854775808) AS followers,
    s.current_position_title AS current_title,
    s.current_position_company_name AS current_company,
    length(s.experience_title) AS positions,
    notEmpty(p.codehost_username_keys) AS has_codehost,
    toDateTime(intDiv(greatest(s.updated_at, 0), 1000), 'UTC') AS updated_at
FROM {{.Tables}}.search_people AS s FINAL
LEFT JOIN (SELECT profile_id, codehost_username_keys FROM {{.Tables}}.network_people FINAL WHERE NOT deleted) AS p ON p.profile_id = s.profile_id
WHERE NOT s.deleted
COMMENT 'People of the professional network, one row each';
