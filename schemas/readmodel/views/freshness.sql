CREATE OR REPLACE VIEW {{.Views}}.freshness{{.OnCluster}} (
    kind LowCardinality(String) COMMENT 'Kind of record, as ingested',
    month Date COMMENT 'First day of the month in which records were crawled last',
    records UInt64 COMMENT 'Records whose newest crawl was in that month',
    oldest DateTime('UTC') COMMENT 'The oldest of them',
    newest DateTime('UTC') COMMENT 'The newest of them'
) AS
SELECT
    kind,
    toStartOfMonth(toDate(crawled)) AS month,
    count() AS records,
    min(crawled) AS oldest,
    max(crawled) AS newest
FROM
(
    SELECT kind, hash, id, toDateTime(greatest(intDiv(max(version), 1000000) - 62135596800, 0), 'UTC') AS crawled
    FROM
    (
        SELECT 'network-person' AS kind, profile_hash AS hash, profile_id AS id, version, content_hash, 1 AS held FROM {{.Tables}}.network_people FINAL WHERE NOT deleted
        UNION ALL
        SELECT 'codehost-person', toUInt64(user_id), toString(user_id), version, content_hash, 1 FROM {{.Tables}}.codehost_people FINAL WHERE NOT deleted
        UNION ALL
        SELECT 'network-company', company_hash, company_id, version, content_hash, 1 FROM {{.Tables}}.network_companies FINAL WHERE NOT deleted
        UNION ALL
        SELECT 'microblog-person', user_hash, user_id, version, content_hash, 1 FROM {{.Tables}}.microblog_people FINAL WHERE NOT deleted
        UNION ALL
        SELECT toString(kind), key_hash, key, version, content_hash, 0 FROM {{.Tables}}.seen_versions FINAL
        WHERE kind IN ('network-person', 'codehost-person', 'network-company', 'microblog-person')
    )
    GROUP BY kind, hash, id, content_hash
    HAVING max(held) = 1
)
GROUP BY kind, month
COMMENT 'How old the data is: records by the month in which they were crawled last';
