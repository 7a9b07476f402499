CREATE OR REPLACE VIEW {{.Views}}.company_headcount{{.OnCluster}} (
    company_key String COMMENT 'Company as in positions.company_key',
    company String COMMENT 'A name that people give it, the same in all months',
    month Date32 COMMENT 'First day of a month in which a person joined or left',
    joined UInt64 COMMENT 'People who came in the month; another position at the same company within a month is no coming and going',
    departed UInt64 COMMENT 'People who went in the month',
    headcount Int64 COMMENT 'People there at the end of the month, of those whom muster knows'
) AS
SELECT
    company_key,
    min(label) OVER (PARTITION BY company_key) AS company,
    month,
    joined,
    departed,
    sum(toInt64(joined) - toInt64(departed)) OVER (PARTITION BY company_key ORDER BY month) AS headcount
FROM
(
    SELECT
        company_key,
        min(label) AS label,
        event.1 AS month,
        countIf(event.2 = 1) AS joined,
        countIf(event.2 = -1) AS departed
    FROM
    (
        SELECT company_key, min(company) AS label, min(came) AS first_day, max(went) AS last_day
        FROM
        (
            SELECT *, sum(again) OVER (PARTITION BY profile_id, company_key ORDER BY came, went ROWS UNBOUNDED PRECEDING) AS stay
            FROM
            (
                SELECT profile_id, company_key, company, assumeNotNull(started) AS came, coalesce(ended, toDate32('2200-01-01')) AS went,
                    came > addMonths(max(went) OVER (PARTITION BY profile_id, company_key ORDER BY came, went ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 1) AS again
                FROM {{.Views}}.positions
                WHERE company_key != '' AND started IS NOT NULL AND (is_current OR ended IS NOT NULL)
            )
        )
        GROUP BY profile_id, company_key, stay
    )
    ARRAY JOIN arrayConcat(
        [(toStartOfMonth(first_day), 1)],
        if(last_day >= toDate32('2200-01-01'), [], [(toStartOfMonth(last_day), -1)])) AS event
    GROUP BY company_key, month
)
COMMENT 'How many of the people whom muster knows worked at a company, by month: a history of headcount made of positions. headcount_by_year of company enrichment counts only positions that name the company by its id or URL';
