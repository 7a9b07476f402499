CREATE OR REPLACE VIEW {{.Views}}.commits{{.OnCluster}} (
    user_id Int64 COMMENT 'Account of the author',
    sha String COMMENT 'Identity within the author',
    repository String COMMENT 'Owner and name of the repository; empty when not known',
    language LowCardinality(String) COMMENT 'Main language of the repository; empty when not known',
    message String COMMENT 'Message without e-mail addresses',
    authored_at Nullable(DateTime('UTC')) COMMENT 'When it was written'
) AS
SELECT
    user_id,
    sha,
    JSONExtractString(document, 'repo', 'full_name') AS repository,
    JSONExtractString(document, 'repo', 'language') AS language,
    JSONExtractString(document, 'message') AS message,
    parseDateTimeBestEffortOrNull(JSONExtractString(document, 'author_date'), 'UTC') AS authored_at
FROM (SELECT *, {{.Addon}} AS document FROM {{.Tables}}.codehost_commits FINAL WHERE NOT deleted) AS c
LEFT JOIN (SELECT user_id AS account, version AS listed_at FROM {{.Tables}}.codehost_lists FINAL WHERE list = 'commits' AND NOT deleted) AS l
    ON l.account = c.user_id
WHERE version > ifNull(listed_at, 0) OR cityHash64(user_id, sha) GLOBAL IN
    (SELECT cityHash64(user_id, arrayJoin(items)) FROM {{.Tables}}.codehost_lists FINAL WHERE list = 'commits' AND NOT deleted)
COMMENT 'Commits, one row each, without those that a complete list of the account lacks';
