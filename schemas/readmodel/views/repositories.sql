CREATE OR REPLACE VIEW {{.Views}}.repositories{{.OnCluster}} (
    user_id Int64 COMMENT 'Account that owns it',
    repo_id Int64 COMMENT 'Identity within the owner',
    full_name String COMMENT 'Owner and name',
    name String COMMENT 'Name',
    description String COMMENT 'Description without e-mail addresses; empty when there is none',
    language LowCardinality(String) COMMENT 'Main language; empty when not known',
    stars Int64 COMMENT 'Stars',
    forks Int64 COMMENT 'Forks of it',
    topics Array(String) COMMENT 'Topics',
    is_fork Bool COMMENT 'It is a fork of another repository',
    created_at Nullable(DateTime('UTC')) COMMENT 'When it was made',
    updated_at Nullable(DateTime('UTC')) COMMENT 'When it was changed last'
) AS
SELECT
    user_id,
    repo_id,
    JSONExtractString(document, 'full_name') AS full_name,
    JSONExtractString(document, 'name') AS name,
    JSONExtractString(document, 'description') AS description,
    JSONExtractString(document, 'language') AS language,
    JSONExtractInt(document, 'stargazers_count') AS stars,
    JSONExtractInt(document, 'forks_count') AS forks,
    JSONExtract(document, 'topics', 'Array(String)') AS topics,
    JSONExtractBool(document, 'fork') AS is_fork,
    parseDateTimeBestEffortOrNull(JSONExtractString(document, 'created_at'), 'UTC') AS created_at,
    parseDateTimeBestEffortOrNull(JSONExtractString(document, 'updated_at'), 'UTC') AS updated_at
FROM (SELECT *, {{.Addon}} AS document FROM {{.Tables}}.codehost_repos FINAL WHERE NOT deleted) AS r
LEFT JOIN (SELECT user_id AS account, version AS listed_at FROM {{.Tables}}.codehost_lists FINAL WHERE list = 'repos' AND NOT deleted) AS l
    ON l.account = r.user_id
WHERE version > ifNull(listed_at, 0) OR cityHash64(user_id, toString(repo_id)) GLOBAL IN
    (SELECT cityHash64(user_id, arrayJoin(items)) FROM {{.Tables}}.codehost_lists FINAL WHERE list = 'repos' AND NOT deleted)
COMMENT 'Repositories of the code host, one row each, without those that a complete list of the account lacks';
