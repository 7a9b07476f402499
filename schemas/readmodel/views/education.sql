CREATE OR REPLACE VIEW {{.Views}}.education{{.OnCluster}} (
    profile_id String COMMENT 'Whose education it is',
    entry UInt32 COMMENT 'Its place in the record, the newest first, from 1',
    school String COMMENT 'Name of the school; empty when not known',
    school_id String COMMENT 'Id of the school; empty when the record has none',
    degree String COMMENT 'Degree; empty when not known',
    field_of_study String COMMENT 'Field of study; empty when not known',
    started Nullable(Date32) COMMENT 'First day; a month or a year alone means its first day',
    ended Nullable(Date32) COMMENT 'Last day likewise'
) AS
SELECT
    profile_id,
    entry,
    school,
    school_id,
    degree,
    field_of_study,
    if(start_ms = -9223372036854775808, NULL, toDate32(fromUnixTimestamp64Milli(start_ms, 'UTC'))) AS started,
    if(end_ms = -9223372036854775808, NULL, toDate32(fromUnixTimestamp64Milli(end_ms, 'UTC'))) AS ended
FROM {{.Tables}}.search_people FINAL
ARRAY JOIN
    arrayEnumerate(education_school_name) AS entry,
    education_school_name AS school,
    education_school_id AS school_id,
    education_degree AS degree,
    education_field_of_study AS field_of_study,
    education_start_date AS start_ms,
    education_end_date AS end_ms
WHERE NOT deleted
COMMENT 'What people studied, where and when: one row for each entry of their education';
