CREATE OR REPLACE VIEW {{.Views}}.links{{.OnCluster}} (
    a_platform LowCardinality(String) COMMENT 'Platform of one account: codehost, network or microblog',
    a_username String COMMENT 'Its username in lower case',
    b_platform LowCardinality(String) COMMENT 'Platform of the other account, after a_platform in the alphabet',
    b_username String COMMENT 'Its username in lower case',
    basis LowCardinality(String) COMMENT 'Who says so: profile (one of the two names the other), statement (a record of kind account-link), discovery',
    source String COMMENT 'Of a statement: its source',
    confidence Float64 COMMENT 'Probability that both are the same person; 1 for a profile',
    stated_at DateTime('UTC') COMMENT 'When it was said'
) AS
SELECT
    least((p, u), (q, v)).1 AS a_platform,
    least((p, u), (q, v)).2 AS a_username,
    greatest((p, u), (q, v)).1 AS b_platform,
    greatest((p, u), (q, v)).2 AS b_username,
    basis,
    source,
    confidence,
    stated_at
FROM
(
    SELECT 'network' AS p, username_key AS u, 'codehost' AS q, arrayJoin(codehost_username_keys) AS v, 'profile' AS basis, '' AS source,
        toFloat64(1) AS confidence, toDateTime(greatest(intDiv(version, 1000000) - 62135596800, 0), 'UTC') AS stated_at
    FROM {{.Tables}}.network_people FINAL WHERE NOT deleted
    UNION ALL
    SELECT 'network', username_key, 'microblog', arrayJoin(microblog_username_keys), 'profile', '',
        toFloat64(1), toDateTime(greatest(intDiv(version, 1000000) - 62135596800, 0), 'UTC')
    FROM {{.Tables}}.network_people FINAL WHERE NOT deleted
    UNION ALL
    SELECT 'codehost', username_key, 'network', arrayJoin(network_username_keys), 'profile', '',
        toFloat64(1), toDateTime(greatest(intDiv(version, 1000000) - 62135596800, 0), 'UTC')
    FROM {{.Tables}}.codehost_people FINAL WHERE NOT deleted
    UNION ALL
    SELECT 'codehost', username_key, 'microblog', arrayJoin(microblog_username_keys), 'profile', '',
        toFloat64(1), toDateTime(greatest(intDiv(version, 1000000) - 62135596800, 0), 'UTC')
    FROM {{.Tables}}.codehost_people FINAL WHERE NOT deleted
    UNION ALL
    SELECT toString(a_platform), a_key, toString(b_platform), b_key, 'statement', toString(source),
        round(toFloat64(confidence), 4), toDateTime(greatest(intDiv(version, 1000000) - 62135596800, 0), 'UTC')
    FROM {{.Tables}}.account_links FINAL WHERE NOT deleted
    UNION ALL
    SELECT toString(platform), username_key, social.1, lowerUTF8(social.2), 'discovery', '',
        social.3, toDateTime(at, 'UTC')
    FROM {{.Tables}}.discoveries FINAL
    ARRAY JOIN JSONExtract(result, 'socials', 'Array(Tuple(platform String, username String, confidence Float64))') AS social
    WHERE social.1 != toString(platform)
)
WHERE u != '' AND v != ''
COMMENT 'Which accounts belong to one person, who says so, and how sure that is: one row for each statement';
