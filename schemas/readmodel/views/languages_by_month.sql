CREATE OR REPLACE VIEW {{.Views}}.languages_by_month{{.OnCluster}} (
    month Date COMMENT 'First day of the month',
    language LowCardinality(String) COMMENT 'Main language of the repositories',
    commits UInt64 COMMENT 'Commits of the month',
    authors UInt64 COMMENT 'Accounts that made them',
    repositories UInt64 COMMENT 'Repositories that they went to'
) AS
SELECT
    toStartOfMonth(toDate(assumeNotNull(authored_at))) AS month,
    language,
    count() AS commits,
    uniqExact(user_id) AS authors,
    uniqExact(repository) AS repositories
FROM {{.Views}}.commits
WHERE authored_at IS NOT NULL AND language != ''
GROUP BY month, language
COMMENT 'Which languages are written, by month';
