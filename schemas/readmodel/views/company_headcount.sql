CREATE OR REPLACE VIEW {{.Views}}.company_headcount{{.OnCluster}} (
    company_key String COMMENT 'Company as in positions.company_key',
    company String COMMENT 'A name that people give it',
    month Date32 COMMENT 'First day of a month in which somebody came or went',
    joined UInt64 COMMENT 'People whose position began in the month',
    departed UInt64 COMMENT 'People whose position ended in the month',
    headcount Int64 COMMENT 'People with a position there at the end of the month, of those whom muster knows'
) AS
SELECT
    company_key,
    company,
    month,
    joined,
    departed,
    sum(toInt64(joined) - toInt64(departed)) OVER (PARTITION BY company_key ORDER BY month) AS headcount
FROM
(
    SELECT
        company_key,
        any(company) AS company,
        event.1 AS month,
        countIf(event.2 = 1) AS joined,
        countIf(event.2 = -1) AS departed
    FROM {{.Views}}.positions
    ARRAY JOIN arrayConcat(
        [(toStartOfMonth(assumeNotNull(started)), 1)],
        if(ended IS NULL, [], [(toStartOfMonth(assumeNotNull(ended)), -1)])) AS event
    WHERE company_key != '' AND started IS NOT NULL AND (is_current OR ended IS NOT NULL)
    GROUP BY company_key, month
)
COMMENT 'How many of the people whom muster knows worked at a company, by month: a history of headcount made of positions';
