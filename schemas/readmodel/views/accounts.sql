CREATE OR REPLACE VIEW {{.Views}}.accounts{{.OnCluster}} (
    user_id Int64 COMMENT 'Identity of the account',
    username String COMMENT 'Username on the code host',
    type LowCardinality(String) COMMENT 'User, Organization or Bot; empty when not known',
    url String COMMENT 'URL of the account; of the username where the record has none',
    full_name String COMMENT 'Full name; empty when not known',
    company String COMMENT 'Company as free text; empty when not known',
    location String COMMENT 'Location as free text; empty when not known',
    city String COMMENT 'City that the location names; empty when not known',
    country String COMMENT 'Country that the location names; empty when not known',
    country_code String COMMENT 'Its two-letter code; empty when not known',
    bio String COMMENT 'Bio without e-mail addresses; empty when there is none',
    followers Nullable(Int64) COMMENT 'Accounts that follow it',
    following Nullable(Int64) COMMENT 'Accounts that it follows',
    public_repos Nullable(Int64) COMMENT 'Public repositories, as the account counts them',
    network_username String COMMENT 'Slug on the professional network that the account names; empty when it names none',
    created_at Nullable(DateTime('UTC')) COMMENT 'When the account was made',
    updated_at DateTime('UTC') COMMENT 'When the record was crawled, in the version whose content is shown'
) AS
SELECT
    user_id,
    codehost_username AS username,
    type,
    JSONExtractString(document, 'url') AS url,
    JSONExtractString(document, 'full_name') AS full_name,
    JSONExtractString(document, 'company') AS company,
    JSONExtractString(document, 'location') AS location,
    JSONExtractString(record, 'location_canonical', 'city') AS city,
    JSONExtractString(record, 'location_canonical', 'country') AS country,
    JSONExtractString(record, 'location_canonical', 'country_code') AS country_code,
    JSONExtractString(document, 'bio') AS bio,
    JSONExtract(document, 'followers', 'Nullable(Int64)') AS followers,
    JSONExtract(document, 'following', 'Nullable(Int64)') AS following,
    JSONExtract(document, 'public_repos', 'Nullable(Int64)') AS public_repos,
    network_username,
    parseDateTimeBestEffortOrNull(JSONExtractString(document, 'created_at'), 'UTC') AS created_at,
    toDateTime(greatest(intDiv(version, 1000000) - 62135596800, 0), 'UTC') AS updated_at
FROM (SELECT *, concat('{', {{.Addon}}, '}') AS document, concat('{', {{.Webset}}, '}') AS record FROM {{.Tables}}.codehost_people FINAL WHERE NOT deleted)
COMMENT 'Accounts of the code host, one row each';
