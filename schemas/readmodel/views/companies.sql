CREATE OR REPLACE VIEW {{.Views}}.companies{{.OnCluster}} (
    company_id String COMMENT 'Identity of the company',
    slug String COMMENT 'Slug of its page; empty when not known',
    network_id String COMMENT 'Id within the professional network; empty when not known',
    name String COMMENT 'Name',
    industry String COMMENT 'Industry; empty when not known',
    company_size String COMMENT 'Size as a range, such as 51-200; empty when not known',
    employees Nullable(Int64) COMMENT 'Employees that the company states',
    founded Nullable(Int64) COMMENT 'Year in which it was founded',
    website String COMMENT 'Website; empty when not known',
    city String COMMENT 'City of the headquarters; empty when not known',
    region String COMMENT 'Region code of the headquarters; empty when not known',
    country String COMMENT 'Country code of the headquarters; empty when not known',
    specialties Array(String) COMMENT 'What it says it is good at',
    updated_at DateTime('UTC') COMMENT 'When the record was crawled, in the version whose content is shown'
) AS
SELECT
    company_id,
    network_slug AS slug,
    network_id,
    name,
    JSONExtractString(document, 'profile', 'industry') AS industry,
    JSONExtractString(document, 'profile', 'company_size') AS company_size,
    JSONExtract(document, 'profile', 'employees', 'Nullable(Int64)') AS employees,
    JSONExtract(document, 'profile', 'founded', 'Nullable(Int64)') AS founded,
    JSONExtractString(document, 'profile', 'website') AS website,
    JSONExtractString(document, 'headquarters', 'city') AS city,
    JSONExtractString(document, 'headquarters', 'region') AS region,
    JSONExtractString(document, 'headquarters', 'country') AS country,
    JSONExtract(document, 'profile', 'specialties', 'Array(String)') AS specialties,
    toDateTime(greatest(intDiv(version, 1000000) - 62135596800, 0), 'UTC') AS updated_at
FROM (SELECT *, concat('{', company, '}') AS document FROM {{.Tables}}.network_companies FINAL WHERE NOT deleted)
COMMENT 'Companies of the professional network, one row each';
