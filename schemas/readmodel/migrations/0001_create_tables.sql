-- owner: projector
{{- define "version" -}}
    `version` Int64 COMMENT 'Version of the record: microseconds since 0001-01-01T00:00:00Z',
    `revision` UInt32 DEFAULT 0 COMMENT 'Mapping revision (muster ingest --remap): decides between equal versions',
    `content_hash` UInt64 COMMENT 'Hash of the content; decides between equal versions',
    `ver` UInt128 MATERIALIZED bitOr(bitOr(bitShiftLeft(toUInt128(version), 69), bitShiftLeft(toUInt128(revision), 37)), bitOr(bitShiftLeft(toUInt128(deleted), 36), toUInt128(bitShiftRight(content_hash, 28)))) COMMENT 'Compared by ReplacingMergeTree: version, mapping revision, deletion, content hash',
    `deleted` Bool COMMENT 'The record is deleted',
{{- end}}
{{- define "source" -}}
    `topic` LowCardinality(String) COMMENT 'Topic of the {{.}} that the row is from',
    `partition` Int32 COMMENT 'Its partition',
    `offset` Int64 COMMENT 'Its offset'
{{- end}}
CREATE TABLE IF NOT EXISTS {{.Local "network_people"}}{{.OnCluster}}
(
    `profile_hash` UInt64 COMMENT 'Hash of profile_id, the order of the table',
    `profile_id` String COMMENT 'Identity',
    `last_updated` String COMMENT 'last_updated as in the record',
    `updated_at` String COMMENT 'last_updated as an RFC 3339 instant in UTC',
    {{template "version"}}
    `username` String COMMENT 'Profile slug as in the record',
    `username_key` String COMMENT 'Its normalized form',
    `email_keys` Array(String) COMMENT 'Normalized forms of every e-mail address of the record',
    `codehost_username_keys` Array(String) COMMENT 'Declared codehost usernames, normalized forms, the own field first',
    `microblog_username_keys` Array(String) COMMENT 'Declared microblog usernames, normalized forms, the own field first',
    `content` String COMMENT 'Everything the API reads: fields, then the record in pieces (schemas/MAPPING.md, Content)' CODEC(ZSTD(1)),
    {{template "source" "record"}}
)
ENGINE = {{.ReplacingMergeTree "network_people" "ver"}}
ORDER BY (profile_hash, profile_id)
SETTINGS {{.ReadByKey 8}}
COMMENT 'Profiles of the professional network, newest version of each';
{{.Distributed "network_people" "profile_hash"}}
CREATE TABLE IF NOT EXISTS {{.Local "codehost_people"}}{{.OnCluster}}
(
    `user_id` Int64 COMMENT 'Identity',
    `last_updated` String COMMENT 'last_updated as in the record',
    {{template "version"}}
    `codehost_username` String COMMENT 'Username as in the record',
    `username_key` String COMMENT 'Its normalized form',
    `type` LowCardinality(String) COMMENT 'User, Organization or Bot; empty when not known',
    `email_keys` Array(String) COMMENT 'Normalized forms of every e-mail address of the record',
    `network_username` String COMMENT 'network_username as in the record',
    `network_username_keys` Array(String) COMMENT 'Declared network usernames, normalized forms, the own field first',
    `microblog_username_keys` Array(String) COMMENT 'Declared microblog usernames, normalized forms, the own field first',
    `present` UInt64 COMMENT 'Bit mask of the fields that must_have tests',
    `content` String COMMENT 'Derived fields, names and e-mail addresses, then the account as answers show it, in pieces (schemas/MAPPING.md, section 11)' CODEC(ZSTD(1)),
    {{template "source" "record"}}
)
ENGINE = {{.ReplacingMergeTree "codehost_people" "ver"}}
ORDER BY (user_id)
SETTINGS {{.ReadByKey 32}}
COMMENT 'Accounts of the code host, newest version of each';
{{.Distributed "codehost_people" "user_id"}}
CREATE TABLE IF NOT EXISTS {{.Local "codehost_repos"}}{{.OnCluster}}
(
    `user_id` Int64 COMMENT 'Owner',
    `repo_id` Int64 COMMENT 'Identity within the owner',
    {{template "version"}}
    `content` String COMMENT 'Language, then the repository as answers show it, in pieces (schemas/MAPPING.md, section 11)' CODEC(ZSTD(1)),
    {{template "source" "record"}}
)
ENGINE = {{.ReplacingMergeTree "codehost_repos" "ver"}}
ORDER BY (user_id, repo_id)
SETTINGS {{.ReadByKey 64}}
COMMENT 'Repositories, newest version of each';
{{.Distributed "codehost_repos" "user_id"}}
CREATE TABLE IF NOT EXISTS {{.Local "codehost_commits"}}{{.OnCluster}}
(
    `user_id` Int64 COMMENT 'Author',
    `sha` String COMMENT 'Identity within the author',
    {{template "version"}}
    `content` String COMMENT 'Author (login, name, address in normalized form and as given), then the commit as answers show it, in pieces (schemas/MAPPING.md, section 11)' CODEC(ZSTD(1)),
    {{template "source" "record"}}
)
ENGINE = {{.ReplacingMergeTree "codehost_commits" "ver"}}
ORDER BY (user_id, sha)
SETTINGS {{.ReadByKey 64}}
COMMENT 'Commits, newest version of each';
{{.Distributed "codehost_commits" "user_id"}}
CREATE TABLE IF NOT EXISTS {{.Local "codehost_lists"}}{{.OnCluster}}
(
    `user_id` Int64 COMMENT 'Owner of the repositories, or author of the commits',
    `list` LowCardinality(String) COMMENT 'repos or commits',
    {{template "version"}}
    `items` Array(String) COMMENT 'Ids, or shas, of all entries at that version; others that are not newer are deleted' CODEC(ZSTD(1)),
    {{template "source" "record"}}
)
ENGINE = {{.ReplacingMergeTree "codehost_lists" "ver"}}
ORDER BY (user_id, list)
SETTINGS {{.ReadByKey 64}}
COMMENT 'Complete lists of an account, newest version of each';
{{.Distributed "codehost_lists" "user_id"}}
CREATE TABLE IF NOT EXISTS {{.Local "network_companies"}}{{.OnCluster}}
(
    `company_hash` UInt64 COMMENT 'Hash of company_id, the order of the table',
    `company_id` String COMMENT 'Identity',
    `last_updated` String COMMENT 'last_updated as in the record',
    {{template "version"}}
    `network_slug` String COMMENT 'Slug as in the record',
    `slug_key` String COMMENT 'Its normalized form',
    `network_id` String COMMENT 'Id of the company within the professional network',
    `name` String COMMENT 'profile.name',
    `company` String COMMENT 'Fields of the company object without last_updated' CODEC(ZSTD(1)),
    {{template "source" "record"}}
)
ENGINE = {{.ReplacingMergeTree "network_companies" "ver"}}
ORDER BY (company_hash, company_id)
SETTINGS {{.ReadByKey 32}}
COMMENT 'Companies of the professional network, newest version of each';
{{.Distributed "network_companies" "company_hash"}}
CREATE TABLE IF NOT EXISTS {{.Local "microblog_people"}}{{.OnCluster}}
(
    `user_hash` UInt64 COMMENT 'Hash of user_id, the order of the table',
    `user_id` String COMMENT 'Identity',
    `last_updated` String COMMENT 'last_updated as in the record',
    {{template "version"}}
    `username` String COMMENT 'Username as in the record',
    `username_key` String COMMENT 'Its normalized form',
    `name` String COMMENT 'Display name',
    `bio` String COMMENT 'Bio' CODEC(ZSTD(1)),
    `location` String COMMENT 'Location as free text',
    `website` String COMMENT 'Website',
    `avatar_url` String COMMENT 'Picture',
    `followers` Nullable(Int64) COMMENT 'Accounts that follow it',
    `following` Nullable(Int64) COMMENT 'Accounts that it follows',
    `created_at` String COMMENT 'created_at as in the record',
    `account_type` LowCardinality(String) COMMENT 'personal, business or government; empty when not known',
    {{template "source" "record"}}
)
ENGINE = {{.ReplacingMergeTree "microblog_people" "ver"}}
ORDER BY (user_hash, user_id)
SETTINGS {{.ReadByKey 64}}
COMMENT 'Accounts of the microblog, newest version of each';
{{.Distributed "microblog_people" "user_hash"}}
CREATE TABLE IF NOT EXISTS {{.Local "account_links"}}{{.OnCluster}}
(
    `link_hash` UInt64 COMMENT 'Hash of link_id, the order of the table',
    `link_id` String COMMENT 'Identity: the two accounts and the source',
    {{template "version"}}
    `a_platform` LowCardinality(String) COMMENT 'Platform of the first account',
    `a_username` String COMMENT 'Username of the first account as in the record',
    `a_key` String COMMENT 'Its normalized form',
    `b_platform` LowCardinality(String) COMMENT 'Platform of the second account',
    `b_username` String COMMENT 'Username of the second account as in the record',
    `b_key` String COMMENT 'Its normalized form',
    `source` LowCardinality(String) COMMENT 'Origin of the statement',
    `confidence` Float32 COMMENT 'As stated, 1 when not stated',
    `observed_at` String COMMENT 'observed_at as in the record',
    {{template "source" "record"}}
)
ENGINE = {{.ReplacingMergeTree "account_links" "ver"}}
ORDER BY (link_hash, link_id)
SETTINGS {{.Durable}}
COMMENT 'Statements that two accounts belong to one person, newest version of each';
{{.Distributed "account_links" "link_hash"}}
CREATE TABLE IF NOT EXISTS {{.Local "lookups"}}{{.OnCluster}}
(
    `key_hash` UInt64 COMMENT 'XXH64 of the kind of value, a zero byte and the value; of an e-mail address the first 8 bytes of its SHA-256',
    `claim` String COMMENT 'type, value, target_kind, target and source, each ended by a NUL, which no text has' CODEC(ZSTD(1)),
    `type` String ALIAS splitByChar(char(0), claim)[1] COMMENT 'Type of the value: network.username, codehost.email, link.codehost, hint.network and so on',
    `value` String ALIAS splitByChar(char(0), claim)[2] COMMENT 'Normalized form of the value',
    `target_kind` String ALIAS splitByChar(char(0), claim)[3] COMMENT 'What target names: a record kind, or account',
    `target` String ALIAS splitByChar(char(0), claim)[4] COMMENT 'Identity of the record with the value, or platform:username of the other side of an account link',
    `source` String ALIAS splitByChar(char(0), claim)[5] COMMENT 'Source of an account link; of a record with this username, the usernames that it declared; of a record that declares this username, its own; of a hint, the username that names the value, and the identity of the record that does',
    `ver` UInt128 COMMENT 'Compared by ReplacingMergeTree: version, mapping revision, deletion, content hash',
    `version` Int64 ALIAS toInt64(bitShiftRight(ver, 69)) COMMENT 'Version of the record: microseconds since 0001-01-01T00:00:00Z',
    `deleted` Bool ALIAS bitAnd(toUInt64(ver), 68719476736) != 0 COMMENT 'The record is deleted',
    `confidence` Float32 COMMENT 'Confidence of the statement',
    {{template "source" "record"}}
)
ENGINE = {{.ReplacingMergeTree "lookups" "ver"}}
PRIMARY KEY key_hash
ORDER BY (key_hash, claim)
SETTINGS {{.ReadByKey 64}}
COMMENT 'Candidates: records that had a value; readers verify them against the main tables';
{{.Distributed "lookups" "key_hash"}}
CREATE TABLE IF NOT EXISTS {{.Local "usage_events"}}{{.OnCluster}}
(
    `organization_id` String COMMENT 'Organization that called',
    `period` LowCardinality(String) COMMENT 'Month of UTC that the call counts in, such as 2026-11',
    `request_id` String COMMENT 'Identity: the X-Request-Id of the answer',
    `key_id` LowCardinality(String) COMMENT 'Public part of the API key',
    `at` DateTime64(6, 'UTC') COMMENT 'Time of the call',
    `method` LowCardinality(String) COMMENT 'HTTP method',
    `endpoint` LowCardinality(String) COMMENT 'Path of the endpoint',
    `status` UInt16 COMMENT 'HTTP status',
    `outcome` LowCardinality(String) COMMENT 'charged, free, failed, replayed, unanswered, or refused_ with the reason',
    `plan` LowCardinality(String) COMMENT 'Plan of the organization at that time',
    `requests` Int64 COMMENT 'Monthly requests counted',
    `credits` Int64 COMMENT 'Value of X-Credits-Charged',
    `duration_us` Int64 COMMENT 'Time to the answer in microseconds',
    `groups` Array(LowCardinality(String)) COMMENT 'Groups of fields that were returned',
    `ver` UInt8 COMMENT 'Compared by ReplacingMergeTree: a call that was answered wins over the report that it was not',
    {{template "source" "event"}}
)
ENGINE = {{.ReplacingMergeTree "usage_events" "ver"}}
PARTITION BY period
ORDER BY (organization_id, period, request_id)
SETTINGS {{.Durable}}
COMMENT 'The ledger: one row per call that was charged, chargeable or rejected';
{{.Distributed "usage_events" "organization_id"}}
CREATE TABLE IF NOT EXISTS {{.Local "disclosures"}}{{.OnCluster}}
(
    `identity` FixedString(16) COMMENT 'Keyed hash of the identity of a record that was returned: that of its suppression by id',
    `platform` LowCardinality(String) COMMENT 'Platform of the record',
    `organization_id` LowCardinality(String) COMMENT 'Organization that received it',
    `request_id` String COMMENT 'Call that returned it' CODEC(ZSTD(1)),
    `at` DateTime('UTC') COMMENT 'Time of the call'
)
ENGINE = {{.ReplacingMergeTree "disclosures" "at"}}
PARTITION BY toYYYYMM(at)
ORDER BY (identity, platform, organization_id, request_id)
TTL at + toIntervalDay(400)
SETTINGS ttl_only_drop_parts = 1, {{.Durable}}
COMMENT 'Which call returned the record of which person; deleted when the person is erased and the receiver was notified';
{{.Distributed "disclosures" "identity"}}
CREATE VIEW IF NOT EXISTS usage_monthly{{.OnCluster}}
(
    `organization_id` String COMMENT 'Organization that called',
    `period` LowCardinality(String) COMMENT 'Month of UTC that the calls count in, such as 2026-11',
    `key_id` LowCardinality(String) COMMENT 'Public part of the API key',
    `endpoint` LowCardinality(String) COMMENT 'Path of the endpoint',
    `calls` UInt64 COMMENT 'Answered calls without replays',
    `requests` Int64 COMMENT 'Monthly requests counted',
    `credits` Int64 COMMENT 'Credits charged',
    `replayed` UInt64 COMMENT 'Responses replayed for an Idempotency-Key',
    `refused` UInt64 COMMENT 'Calls rejected for rate, credits or permission',
    `failed` UInt64 COMMENT 'Calls that failed in muster',
    `last_at` DateTime64(6, 'UTC') COMMENT 'Time of the last call'
)
COMMENT 'Usage by organization, key, endpoint and month'
AS SELECT
    organization_id,
    period,
    key_id,
    endpoint,
    countIf(outcome IN ('charged', 'free', 'failed')) AS calls,
    sum(requests) AS requests,
    sum(credits) AS credits,
    countIf(outcome = 'replayed') AS replayed,
    countIf(startsWith(outcome, 'refused')) AS refused,
    countIf(outcome = 'failed') AS failed,
    max(at) AS last_at
FROM usage_events
FINAL
GROUP BY
    organization_id,
    period,
    key_id,
    endpoint;
CREATE TABLE IF NOT EXISTS {{.Local "search_people"}}{{.OnCluster}}
(
    `profile_hash` UInt64 COMMENT 'Hash of profile_id, the order of the table',
    `profile_id` String COMMENT 'Identity',
    {{template "version"}}
    `network_url` String COMMENT 'network_url; empty when missing, or over 256 characters with tokens',
    `network_url_tokens` Array(String) COMMENT 'Tokens of network_url',
    `network_username` String COMMENT 'network_username; empty when missing, or over 256 characters with tokens',
    `network_username_tokens` Array(String) COMMENT 'Tokens of network_username',
    `profile_id_tokens` Array(String) COMMENT 'Tokens of profile_id',
    `updated_at` Int64 COMMENT 'updated_at in milliseconds since 1970; the least Int64 when missing',
    `profile_first_name` String COMMENT 'profile.first_name; empty when missing',
    `profile_first_name_tokens` Array(String) COMMENT 'Tokens of profile.first_name',
    `profile_last_name` String COMMENT 'profile.last_name; empty when missing',
    `profile_last_name_tokens` Array(String) COMMENT 'Tokens of profile.last_name',
    `profile_full_name` String COMMENT 'profile.full_name; empty when missing',
    `profile_full_name_tokens` Array(String) COMMENT 'Tokens of profile.full_name',
    `profile_headline` String COMMENT 'profile.headline; empty when missing',
    `profile_headline_tokens` Array(String) COMMENT 'Tokens of profile.headline',
    `profile_summary` String COMMENT 'profile.summary; empty when missing',
    `profile_summary_tokens` Array(String) COMMENT 'Tokens of profile.summary',
    `profile_image_url` String COMMENT 'profile.image_url; empty when missing, or over 256 characters with tokens',
    `profile_image_url_tokens` Array(String) COMMENT 'Tokens of profile.image_url',
    `profile_connections` Int64 COMMENT 'profile.connections; the least Int64 when missing',
    `profile_followers` Int64 COMMENT 'profile.followers; the least Int64 when missing',
    `profile_location_raw_address` String COMMENT 'profile.location.raw_address; empty when missing',
    `profile_location_raw_address_tokens` Array(String) COMMENT 'Tokens of profile.location.raw_address',
    `profile_location_city` String COMMENT 'profile.location.city; empty when missing',
    `profile_location_city_tokens` Array(String) COMMENT 'Tokens of profile.location.city',
    `profile_location_state` String COMMENT 'profile.location.state; empty when missing',
    `profile_location_state_tokens` Array(String) COMMENT 'Tokens of profile.location.state',
    `profile_location_country` String COMMENT 'profile.location.country; empty when missing',
    `profile_location_country_tokens` Array(String) COMMENT 'Tokens of profile.location.country',
    `profile_location_country_code` String COMMENT 'profile.location.country_code; empty when missing, or over 256 characters with tokens',
    `profile_location_country_code_tokens` Array(String) COMMENT 'Tokens of profile.location.country_code',
    `profile_location_continent` String COMMENT 'profile.location.continent; empty when missing',
    `profile_location_continent_tokens` Array(String) COMMENT 'Tokens of profile.location.continent',
    `profile_personal_email` String COMMENT 'profile.personal_email; empty when missing, or over 256 characters with tokens',
    `profile_personal_email_tokens` Array(String) COMMENT 'Tokens of profile.personal_email',
    `current_position_title` String COMMENT 'current_position.title; empty when missing',
    `current_position_title_tokens` Array(String) COMMENT 'Tokens of current_position.title',
    `current_position_company_name` String COMMENT 'current_position.company_name; empty when missing',
    `current_position_company_name_tokens` Array(String) COMMENT 'Tokens of current_position.company_name',
    `current_position_company_id` String COMMENT 'current_position.company_id; empty when missing, or over 256 characters with tokens',
    `current_position_company_id_tokens` Array(String) COMMENT 'Tokens of current_position.company_id',
    `current_position_start_date` Int64 COMMENT 'current_position.start_date in milliseconds since 1970; the least Int64 when missing',
    `experience_count` Int64 COMMENT 'experience_count; the least Int64 when missing',
    `education_count` Int64 COMMENT 'education_count; the least Int64 when missing',
    `years_of_experience` Int64 COMMENT 'years_of_experience; the least Int64 when missing',
    `experience_title` Array(String) COMMENT 'experience.title, one an element; empty when missing',
    `experience_title_tokens` Array(Array(String)) COMMENT 'Tokens of experience.title, a list an element',
    `experience_company_name` Array(String) COMMENT 'experience.company_name, one an element; empty when missing',
    `experience_company_name_tokens` Array(Array(String)) COMMENT 'Tokens of experience.company_name, a list an element',
    `experience_company_id` Array(String) COMMENT 'experience.company_id, one an element; empty when missing, or over 256 characters with tokens',
    `experience_company_id_tokens` Array(Array(String)) COMMENT 'Tokens of experience.company_id, a list an element',
    `experience_company_url` Array(String) COMMENT 'experience.company_url, one an element; empty when missing, or over 256 characters with tokens',
    `experience_company_url_tokens` Array(Array(String)) COMMENT 'Tokens of experience.company_url, a list an element',
    `experience_location` Array(String) COMMENT 'experience.location, one an element; empty when missing',
    `experience_location_tokens` Array(Array(String)) COMMENT 'Tokens of experience.location, a list an element',
    `experience_description` Array(String) COMMENT 'experience.description, one an element; empty when missing, or over 256 characters with tokens',
    `experience_description_tokens` Array(Array(String)) COMMENT 'Tokens of experience.description, a list an element',
    `experience_start_date` Array(Int64) COMMENT 'experience.start_date in milliseconds since 1970; the least Int64 when missing, one an element',
    `experience_end_date` Array(Int64) COMMENT 'experience.end_date in milliseconds since 1970; the least Int64 when missing, one an element',
    `experience_is_current` Array(UInt8) COMMENT 'experience.is_current, one an element',
    `education_school_name` Array(String) COMMENT 'education.school_name, one an element; empty when missing, or over 256 characters with tokens',
    `education_school_name_tokens` Array(Array(String)) COMMENT 'Tokens of education.school_name, a list an element',
    `education_school_id` Array(String) COMMENT 'education.school_id, one an element; empty when missing, or over 256 characters with tokens',
    `education_school_id_tokens` Array(Array(String)) COMMENT 'Tokens of education.school_id, a list an element',
    `education_school_url` Array(String) COMMENT 'education.school_url, one an element; empty when missing, or over 256 characters with tokens',
    `education_school_url_tokens` Array(Array(String)) COMMENT 'Tokens of education.school_url, a list an element',
    `education_degree` Array(String) COMMENT 'education.degree, one an element; empty when missing, or over 256 characters with tokens',
    `education_degree_tokens` Array(Array(String)) COMMENT 'Tokens of education.degree, a list an element',
    `education_field_of_study` Array(String) COMMENT 'education.field_of_study, one an element; empty when missing, or over 256 characters with tokens',
    `education_field_of_study_tokens` Array(Array(String)) COMMENT 'Tokens of education.field_of_study, a list an element',
    `education_start_date` Array(Int64) COMMENT 'education.start_date in milliseconds since 1970; the least Int64 when missing, one an element',
    `education_end_date` Array(Int64) COMMENT 'education.end_date in milliseconds since 1970; the least Int64 when missing, one an element',
    `certifications_name` Array(String) COMMENT 'certifications.name, one an element; empty when missing, or over 256 characters with tokens',
    `certifications_name_tokens` Array(Array(String)) COMMENT 'Tokens of certifications.name, a list an element',
    `certifications_issuer` Array(String) COMMENT 'certifications.issuer, one an element; empty when missing, or over 256 characters with tokens',
    `certifications_issuer_tokens` Array(Array(String)) COMMENT 'Tokens of certifications.issuer, a list an element',
    `certifications_issue_date` Array(Int64) COMMENT 'certifications.issue_date in milliseconds since 1970; the least Int64 when missing, one an element',
    `languages_language` Array(String) COMMENT 'languages.language, one an element; empty when missing, or over 256 characters with tokens',
    `languages_language_tokens` Array(Array(String)) COMMENT 'Tokens of languages.language, a list an element',
    `languages_proficiency` Array(String) COMMENT 'languages.proficiency, one an element; empty when missing, or over 256 characters with tokens',
    `languages_proficiency_tokens` Array(Array(String)) COMMENT 'Tokens of languages.proficiency, a list an element',
    `skills_skill` Array(String) COMMENT 'skills.skill, one an element; empty when missing',
    `skills_skill_tokens` Array(Array(String)) COMMENT 'Tokens of skills.skill, a list an element',
    `experience_title_repeats` Array(UInt64) COMMENT 'Hashes of repeated tokens and values of experience.title' CODEC(LZ4),
    `experience_company_url_repeats` Array(UInt64) COMMENT 'Hashes of repeated tokens and values of experience.company_url' CODEC(LZ4),
    `experience_location_repeats` Array(UInt64) COMMENT 'Hashes of repeated tokens and values of experience.location' CODEC(LZ4),
    `experience_description_repeats` Array(UInt64) COMMENT 'Hashes of repeated tokens and values of experience.description' CODEC(LZ4),
    `other_repeats` Array(UInt64) COMMENT 'Hashes of repeated tokens and values of the other texts' CODEC(LZ4),
    {{template "source" "record"}},
    `inserted` DateTime MATERIALIZED now() COMMENT 'When the row was inserted; rows at rest are compressed anew',
    INDEX network_url_tokens_filter network_url_tokens TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX network_url_filter network_url TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX network_username_tokens_index network_username_tokens TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX network_username_filter network_username TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX profile_id_filter profile_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX profile_first_name_tokens_index profile_first_name_tokens TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX profile_last_name_tokens_index profile_last_name_tokens TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX profile_full_name_tokens_index profile_full_name_tokens TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX profile_full_name_filter profile_full_name TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX profile_headline_tokens_index profile_headline_tokens TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX profile_headline_filter profile_headline TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX profile_summary_tokens_index profile_summary_tokens TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX profile_summary_filter profile_summary TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX profile_image_url_filter profile_image_url TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX profile_location_raw_address_tokens_index profile_location_raw_address_tokens TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX profile_location_city_tokens_index profile_location_city_tokens TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX profile_location_state_tokens_index profile_location_state_tokens TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX profile_location_country_tokens_index profile_location_country_tokens TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX profile_location_country_index profile_location_country TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX profile_location_country_code_index profile_location_country_code TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX profile_personal_email_tokens_index profile_personal_email_tokens TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX profile_personal_email_filter profile_personal_email TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX current_position_title_tokens_index current_position_title_tokens TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX current_position_company_name_tokens_index current_position_company_name_tokens TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX experience_title_tokens_index arrayFlatten(experience_title_tokens) TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX experience_title_index experience_title TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX experience_company_name_tokens_index arrayFlatten(experience_company_name_tokens) TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX experience_company_name_index experience_company_name TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX experience_company_id_index experience_company_id TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX experience_company_tokens_filter (
        arrayFlatten(experience_company_id_tokens), arrayFlatten(experience_company_url_tokens)
    ) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX experience_company_url_filter experience_company_url TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX experience_location_tokens_index arrayFlatten(experience_location_tokens) TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX experience_description_tokens_index arrayFlatten(experience_description_tokens) TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX experience_description_filter experience_description TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX education_school_name_tokens_index arrayFlatten(education_school_name_tokens) TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX education_school_name_index education_school_name TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX education_school_id_index education_school_id TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX education_school_url_tokens_index arrayFlatten(education_school_url_tokens) TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX education_degree_tokens_index arrayFlatten(education_degree_tokens) TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX education_field_of_study_tokens_index arrayFlatten(education_field_of_study_tokens) TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX certifications_name_tokens_index arrayFlatten(certifications_name_tokens) TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX certifications_name_index certifications_name TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX certifications_issuer_tokens_index arrayFlatten(certifications_issuer_tokens) TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX certifications_issuer_index certifications_issuer TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX skills_skill_tokens_index arrayFlatten(skills_skill_tokens) TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX skills_skill_index skills_skill TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    -- A filter reserves for each of its columns the space that the one with the most distinct values needs, so columns
    -- with similar numbers share one.
    INDEX few_values_filter (
        profile_location_raw_address, profile_location_city, profile_location_state,
        profile_location_country_code_tokens, profile_location_continent_tokens, profile_location_continent,
        current_position_title, experience_location, arrayFlatten(education_school_id_tokens), education_degree,
        education_field_of_study, arrayFlatten(languages_language_tokens), languages_language,
        arrayFlatten(languages_proficiency_tokens), languages_proficiency
    ) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX many_values_filter (
        profile_id_tokens, profile_first_name, profile_last_name, profile_image_url_tokens,
        current_position_company_name, current_position_company_id_tokens, current_position_company_id,
        education_school_url
    ) TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = {{.ReplacingMergeTree "search_people" "ver"}}
ORDER BY (profile_hash, profile_id)
TTL inserted + toIntervalSecond(240) RECOMPRESS CODEC(ZSTD(3))
SETTINGS {{.Durable}}, min_bytes_for_wide_part = 268435456, {{.MergeAtRest}}
COMMENT 'What person search reads: tokens, keywords, numbers and dates of network people, newest version of each';
{{.Distributed "search_people" "profile_hash"}}
CREATE TABLE IF NOT EXISTS {{.Local "search_companies"}}{{.OnCluster}}
(
    `company_hash` UInt64 COMMENT 'Hash of company_id, the order of the table',
    `company_id` String COMMENT 'Identity',
    {{template "version"}}
    `company_id_tokens` Array(String) COMMENT 'Tokens of company_id',
    `network_slug` String COMMENT 'network_slug; empty when missing, or over 256 characters with tokens',
    `network_slug_tokens` Array(String) COMMENT 'Tokens of network_slug',
    `network_id` String COMMENT 'network_id; empty when missing, or over 256 characters with tokens',
    `network_id_tokens` Array(String) COMMENT 'Tokens of network_id',
    `profile_name` String COMMENT 'profile.name; empty when missing',
    `profile_name_tokens` Array(String) COMMENT 'Tokens of profile.name',
    `profile_tagline` String COMMENT 'profile.tagline; empty when missing',
    `profile_tagline_tokens` Array(String) COMMENT 'Tokens of profile.tagline',
    `profile_description` String COMMENT 'profile.description; empty when missing',
    `profile_description_tokens` Array(String) COMMENT 'Tokens of profile.description',
    `profile_industry` String COMMENT 'profile.industry; empty when missing',
    `profile_industry_tokens` Array(String) COMMENT 'Tokens of profile.industry',
    `profile_company_size` String COMMENT 'profile.company_size; empty when missing, or over 256 characters with tokens',
    `profile_company_size_tokens` Array(String) COMMENT 'Tokens of profile.company_size',
    `profile_employees` Int64 COMMENT 'profile.employees; the least Int64 when missing',
    `profile_founded` Int64 COMMENT 'profile.founded; the least Int64 when missing',
    `profile_website` String COMMENT 'profile.website; empty when missing, or over 256 characters with tokens',
    `profile_website_tokens` Array(String) COMMENT 'Tokens of profile.website',
    `profile_domain` String COMMENT 'profile.domain; empty when missing, or over 256 characters with tokens',
    `profile_domain_tokens` Array(String) COMMENT 'Tokens of profile.domain',
    `profile_phone` String COMMENT 'profile.phone; empty when missing, or over 256 characters with tokens',
    `profile_phone_tokens` Array(String) COMMENT 'Tokens of profile.phone',
    `profile_specialties` Array(String) COMMENT 'profile.specialties, one a value; empty when over 256 characters with tokens',
    `profile_specialties_tokens` Array(Array(String)) COMMENT 'Tokens of profile.specialties, a list a value',
    `headquarters_city` String COMMENT 'headquarters.city; empty when missing',
    `headquarters_city_tokens` Array(String) COMMENT 'Tokens of headquarters.city',
    `headquarters_region` String COMMENT 'headquarters.region; empty when missing',
    `headquarters_region_tokens` Array(String) COMMENT 'Tokens of headquarters.region',
    `headquarters_country` String COMMENT 'headquarters.country; empty when missing',
    `headquarters_country_tokens` Array(String) COMMENT 'Tokens of headquarters.country',
    `headquarters_postal_code` String COMMENT 'headquarters.postal_code; empty when missing, or over 256 characters with tokens',
    `headquarters_postal_code_tokens` Array(String) COMMENT 'Tokens of headquarters.postal_code',
    `headquarters_line1` String COMMENT 'headquarters.line1; empty when missing, or over 256 characters with tokens',
    `headquarters_line1_tokens` Array(String) COMMENT 'Tokens of headquarters.line1',
    `headquarters_line2` String COMMENT 'headquarters.line2; empty when missing, or over 256 characters with tokens',
    `headquarters_line2_tokens` Array(String) COMMENT 'Tokens of headquarters.line2',
    `other_repeats` Array(UInt64) COMMENT 'Hashes of repeated tokens and values of all texts' CODEC(LZ4),
    {{template "source" "record"}},
    INDEX network_slug_tokens_index network_slug_tokens TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX network_slug_index network_slug TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX network_id_tokens_index network_id_tokens TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX network_id_index network_id TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX profile_name_tokens_index profile_name_tokens TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX profile_name_index profile_name TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX profile_tagline_tokens_index profile_tagline_tokens TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX profile_description_tokens_index profile_description_tokens TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX profile_industry_tokens_index profile_industry_tokens TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX profile_industry_index profile_industry TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX profile_company_size_tokens_index profile_company_size_tokens TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX profile_company_size_index profile_company_size TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX profile_website_tokens_index profile_website_tokens TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX profile_website_index profile_website TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX profile_domain_tokens_index profile_domain_tokens TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX profile_domain_index profile_domain TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX profile_phone_tokens_index profile_phone_tokens TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX profile_phone_index profile_phone TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX profile_specialties_tokens_index arrayFlatten(profile_specialties_tokens) TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX profile_specialties_index profile_specialties TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX headquarters_city_tokens_index headquarters_city_tokens TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX headquarters_city_index headquarters_city TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX headquarters_region_tokens_index headquarters_region_tokens TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX headquarters_region_index headquarters_region TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX headquarters_country_tokens_index headquarters_country_tokens TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX headquarters_country_index headquarters_country TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX headquarters_postal_code_tokens_index headquarters_postal_code_tokens TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX headquarters_postal_code_index headquarters_postal_code TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX headquarters_line1_tokens_index headquarters_line1_tokens TYPE text(tokenizer = 'array') GRANULARITY 100000000,
    INDEX headquarters_line2_tokens_index headquarters_line2_tokens TYPE text(tokenizer = 'array') GRANULARITY 100000000
)
ENGINE = {{.ReplacingMergeTree "search_companies" "ver"}}
ORDER BY (company_hash, company_id)
SETTINGS {{.Durable}}, min_bytes_for_wide_part = 268435456, {{.MergeAtRest}}
COMMENT 'What company search reads: tokens, keywords and numbers of companies, newest version of each';
{{.Distributed "search_companies" "company_hash"}}
CREATE TABLE IF NOT EXISTS {{.Local "seen_versions"}}{{.OnCluster}}
(
    `kind` LowCardinality(String) COMMENT 'Kind of the record',
    `key_hash` UInt64 COMMENT 'What the table of the kind is ordered by: the hash of the identity, or a user_id',
    `key` String COMMENT 'Identity of the record',
    `version` Int64 COMMENT 'The newer version: microseconds since 0001-01-01T00:00:00Z',
    `revision` UInt32 DEFAULT 0 COMMENT 'Mapping revision (muster ingest --remap): decides between equal versions',
    `content_hash` UInt64 COMMENT 'Hash of the content that the record still had; of a row with another hash this states nothing',
    `ver` UInt128 MATERIALIZED bitOr(bitOr(bitShiftLeft(toUInt128(version), 69), bitShiftLeft(toUInt128(revision), 37)), bitOr(bitShiftLeft(toUInt128(deleted), 36), toUInt128(bitShiftRight(content_hash, 28)))) COMMENT 'Compared by ReplacingMergeTree: version, mapping revision, deletion, content hash',
    `deleted` Bool COMMENT 'Always false: deletions are records',
    `last_updated` String COMMENT 'The newer version as in the record',
    {{template "source" "message"}}
)
ENGINE = {{.ReplacingMergeTree "seen_versions" "ver"}}
ORDER BY (kind, key_hash, key, content_hash)
SETTINGS {{.ReadByKey 128}}
COMMENT 'Version bumps: newer versions of records with unchanged content';
{{.Distributed "seen_versions" "key_hash"}}
CREATE TABLE IF NOT EXISTS {{.Local "webhook_attempts"}}{{.OnCluster}}
(
    `organization_id` String COMMENT 'Organization whose delivery it is',
    `delivery_id` String COMMENT 'The webhook-id',
    `round` String COMMENT 'ID of the resend request; empty for the first round',
    `attempt` UInt16 COMMENT 'Number of the attempt in its round',
    `endpoint_id` String COMMENT 'Endpoint: organization, scheme, host, port and path',
    `address` String COMMENT 'The endpoint, without the query of the URL',
    `request_id` String COMMENT 'Call that requested the delivery',
    `at` DateTime64(6, 'UTC') COMMENT 'Time of the attempt',
    `duration_us` Int64 COMMENT 'How long it took in microseconds',
    `http_status` UInt16 COMMENT 'HTTP status of the response; 0 without one',
    `status` LowCardinality(String) COMMENT 'Status of the delivery after the attempt: pending, delivered, dead',
    `error` LowCardinality(String) COMMENT 'Class of the failure; empty when it was delivered',
    `response` String COMMENT 'Beginning of a failed response, redacted',
    `next_at` DateTime64(6, 'UTC') COMMENT 'Time of the next attempt; 1970 if there is none',
    `created_at` DateTime64(6, 'UTC') COMMENT 'Time when the delivery was requested',
    `task_partition` Int32 COMMENT 'Partition of the task in muster.task.webhook.v1',
    `task_offset` Int64 COMMENT 'Its offset there',
    {{template "source" "event"}}
)
ENGINE = {{.ReplacingMergeTree "webhook_attempts" "offset"}}
PARTITION BY toYYYYMM(created_at)
ORDER BY (organization_id, delivery_id, created_at, round, attempt)
TTL toDateTime(created_at) + toIntervalDay(90)
SETTINGS {{.Durable}}
COMMENT 'Every delivery attempt, and every decision to stop';
{{.Distributed "webhook_attempts" "organization_id"}}
CREATE TABLE IF NOT EXISTS {{.Local "discoveries"}}{{.OnCluster}}
(
    `input_hash` UInt64 COMMENT 'Hash of platform and username key, the order of the table',
    `platform` LowCardinality(String) COMMENT 'Platform of the input',
    `username_key` String COMMENT 'Normalized form of the username of the input',
    `request_id` String COMMENT 'Request',
    `at` DateTime64(6, 'UTC') COMMENT 'Time of the result',
    `version` Int64 COMMENT 'at in microseconds since 1970-01-01T00:00:00Z; what ReplacingMergeTree compares',
    `found` UInt8 COMMENT 'Profiles beyond the input',
    `result` String COMMENT 'The event as JSON' CODEC(ZSTD(1)),
    {{template "source" "event"}}
)
ENGINE = {{.ReplacingMergeTree "discoveries" "version"}}
ORDER BY (input_hash, platform, username_key)
TTL toDateTime(at) + toIntervalDay(366)
SETTINGS {{.ReadByKey 64}}
COMMENT 'Newest complete result of discovery for each input';
{{.Distributed "discoveries" "input_hash"}}
CREATE TABLE IF NOT EXISTS {{.Local "contexts"}}{{.OnCluster}}
(
    `request_hash` UInt64 COMMENT 'Hash of the request id, the order of the table',
    `request_id` String COMMENT 'Request that was accepted',
    `organization_id` String COMMENT 'Organization that may read it',
    `at` DateTime64(6, 'UTC') COMMENT 'Time of this status',
    `version` Int64 COMMENT '0 while it is processed, then 9223372036854775807 less the offset: the first outcome counts; what ReplacingMergeTree compares',
    `status` LowCardinality(String) COMMENT 'processing, complete, failed',
    `result` String COMMENT 'The event as JSON, with the profile' CODEC(ZSTD(1)),
    {{template "source" "event"}}
)
ENGINE = {{.ReplacingMergeTree "contexts" "version"}}
ORDER BY (request_hash, request_id)
TTL toDateTime(at) + toIntervalDay(2)
SETTINGS {{.ReadByKey 64}}
COMMENT 'Calls of the context endpoint and their results; readers use those of one day';
{{.Distributed "contexts" "request_hash"}}
CREATE TABLE IF NOT EXISTS {{.Local "bulk_rows"}}{{.OnCluster}}
(
    `job_hash` UInt64 COMMENT 'Hash of the job id, the order of the table',
    `job_id` String COMMENT 'Bulk job',
    `organization_id` String COMMENT 'Organization that may read it',
    `kind` LowCardinality(String) COMMENT 'job: the description; chunk: 100 rows, to be answered or answered; answer: the answer to a row',
    `number` Int32 COMMENT 'Number of the chunk or row, from 0; of a job 0, of its failure 1',
    `at` DateTime64(6, 'UTC') COMMENT 'Time when the job was accepted; all rows of a job expire together',
    `version` Int64 COMMENT '0: as accepted; else the first answer or failure counts; what ReplacingMergeTree compares',
    `rows` Int32 COMMENT 'Rows of a chunk',
    `credits` Int64 COMMENT 'Price of the answers of a chunk',
    `as_of` DateTime64(3, 'UTC') COMMENT 'Time as of which the answers of a chunk have every published record; epoch: unknown',
    `subjects` String COMMENT 'Keyed hashes, 16 bytes each, of the identifiers of the people in an answer, for erasure',
    `sealed` String COMMENT 'Content: JSON, compressed, then encrypted with a key of query-api' CODEC(NONE)
)
ENGINE = {{.ReplacingMergeTree "bulk_rows" "version"}}
PARTITION BY toDate(at)
ORDER BY (job_hash, job_id, kind, number)
TTL toDateTime(at) + toIntervalDay(7)
SETTINGS ttl_only_drop_parts = 1, {{.ReadByKey 8}}
COMMENT 'Bulk jobs: their rows, and the answers for seven days; only query-api can read the content';
{{.Distributed "bulk_rows" "job_hash"}}
CREATE TABLE IF NOT EXISTS {{.Local "discovered_links"}}{{.OnCluster}}
(
    `found_hash` UInt64 COMMENT 'Hash of platform and username key of the profile that was found, the order of the table',
    `found_platform` LowCardinality(String) COMMENT 'Platform of the profile that was found',
    `found_key` String COMMENT 'Normalized form of its username',
    `found_identity` String COMMENT 'Its stable id at its platform; empty: not known',
    `input_hash` UInt64 COMMENT 'discoveries.input_hash of the input',
    `input_platform` LowCardinality(String) COMMENT 'Platform of the input',
    `input_key` String COMMENT 'Normalized form of the username of the input',
    `input_identity` String COMMENT 'Stable id of the input at its platform; empty: not known',
    `confidence` Float64 COMMENT 'Calibrated probability that both are one person, 0.9 and more',
    `at` DateTime64(6, 'UTC') COMMENT 'Time of the result',
    `version` Int64 COMMENT 'at in microseconds since 1970-01-01T00:00:00Z; what ReplacingMergeTree compares',
    {{template "source" "event"}}
)
ENGINE = {{.ReplacingMergeTree "discovered_links" "version"}}
ORDER BY (found_hash, found_platform, found_key, input_hash, input_platform, input_key)
TTL toDateTime(at) + toIntervalDay(366)
SETTINGS {{.ReadByKey 64}}
COMMENT 'Inputs of discovery that found a profile: candidates, valid while the newest result of the input contains them';
{{.Distributed "discovered_links" "found_hash"}}
CREATE TABLE IF NOT EXISTS {{.Local "codehost_answers"}}{{.OnCluster}}
(
    `user_id` Int64 COMMENT 'Identity of the account',
    `generation` UInt32 COMMENT 'Generation of the topic of touches',
    `touch` Int64 COMMENT 'Offset of the touch that the row was built for',
    `partition` Int32 COMMENT 'Partition of that touch',
    `rebuilt` UInt32 DEFAULT 0 COMMENT 'Number of builds without a touch since',
    `ver` UInt128 MATERIALIZED bitOr(bitShiftLeft(toUInt128(generation), 96), bitOr(bitShiftLeft(toUInt128(touch), 32), toUInt128(rebuilt))) COMMENT 'Compared by ReplacingMergeTree: generation, touch, rebuilt',
    `base_version` Int64 COMMENT 'Newest version of the rows that the answer was built from',
    `base_rows` UInt64 COMMENT 'Number of these rows',
    `base_hash` UInt64 COMMENT 'Hash of their identities and versions',
    `username_key` String COMMENT 'Normalized form of its username',
    `email_keys` Array(String) COMMENT 'Normalized forms of every e-mail address of the record',
    `content` String COMMENT 'Everything the API reads: fields, then the account and its newest repositories and commits in pieces (schemas/MAPPING.md, Content)' CODEC(ZSTD(1))
)
ENGINE = {{.ReplacingMergeTree "codehost_answers" "ver"}}
ORDER BY (user_id)
SETTINGS {{.ReadByKey 8}}
COMMENT 'Answers about code-host accounts, one row each';
{{.Distributed "codehost_answers" "user_id"}}
CREATE TABLE IF NOT EXISTS {{.Local "answer_generations"}}{{.OnCluster}}
(
    `generation` UInt32 COMMENT 'Generation of the topic of touches: it grows when the topic is recreated',
    `partitions` UInt32 COMMENT 'Number of its partitions'
)
ENGINE = {{.ReplacingMergeTree "answer_generations" "generation"}}
ORDER BY (generation)
SETTINGS {{.Durable}}
COMMENT 'Generations of the topic of touches';
{{.Distributed "answer_generations" "generation"}}
CREATE TABLE IF NOT EXISTS {{.Local "linked_accounts"}}{{.OnCluster}}
(
    `profile_hash` UInt64 COMMENT 'Hash of profile_id, the order of the table',
    `profile_id` String COMMENT 'Identity of the network person',
    `ver` UInt64 COMMENT 'When the link was read: microseconds since 1970-01-01T00:00:00Z, more than that of the row before',
    `user_id` Int64 COMMENT 'Identity of the linked account; -1 if there is none any more',
    `codehost_username` String COMMENT 'codehost.username; empty when missing',
    `codehost_username_tokens` Array(String) COMMENT 'Tokens of codehost.username',
    `codehost_languages` Array(String) COMMENT 'codehost.languages, one a value',
    `codehost_languages_tokens` Array(Array(String)) COMMENT 'Tokens of codehost.languages, a list a value',
    `codehost_public_repos` Int64 COMMENT 'codehost.public_repos; the least Int64 when missing',
    `codehost_followers` Int64 COMMENT 'codehost.followers; the least Int64 when missing'
)
ENGINE = {{.ReplacingMergeTree "linked_accounts" "ver"}}
ORDER BY (profile_hash, profile_id)
SETTINGS index_granularity = 64, {{.MergeAtRest}}, {{.Durable}}
COMMENT 'What person search reads of the code-host account that a network person is linked with by a stated link';
{{.Distributed "linked_accounts" "profile_hash"}}
CREATE TABLE IF NOT EXISTS {{.Local "suggestions"}}{{.OnCluster}}
(
    `field` LowCardinality(String) COMMENT 'Path of the field; empty: the run is complete, and people is a checksum of what was counted',
    `folded` String COMMENT 'The value in lower case, without accents: what prefixes are compared with',
    `value` String COMMENT 'Value that at least 3 people have',
    `people` UInt64 COMMENT 'Number of people who have it',
    `run` UInt64 COMMENT 'Count of all values that the row is from: microseconds since 1970-01-01T00:00:00Z, times 4096, and random bits'
)
ENGINE = {{.ReplacingMergeTree "suggestions" "run"}}
PARTITION BY run
ORDER BY (field, folded, value)
SETTINGS index_granularity = 512, {{.Durable}}
COMMENT 'Values of search fields with the number of people who have them; readers use the newest complete run';
{{.Distributed "suggestions" "value"}}
CREATE TABLE IF NOT EXISTS {{.Local "company_headcounts"}}{{.OnCluster}}
(
    `company_hash` UInt64 COMMENT 'network_companies.company_hash, the order of the table',
    `company_id` String COMMENT 'Identity of the company; empty in the last row of a run, whose company_hash is a checksum of what was counted',
    `run` UInt64 COMMENT 'Time of the count in microseconds since 1970-01-01T00:00:00Z; readers use the newest row of a company',
    `sample` UInt32 COMMENT 'People with a dated position at the company',
    `years` Array(UInt16) COMMENT 'Years with at least 5 people, ascending',
    `people` Array(UInt32) COMMENT 'People who worked there on the last day of each year, or at the time of the count'
)
ENGINE = {{.ReplacingMergeTree "company_headcounts" "run"}}
PARTITION BY run
ORDER BY (company_hash, company_id)
SETTINGS {{.ReadByKey 64}}
COMMENT 'Headcount of companies by year, from the positions of people';
{{.Distributed "company_headcounts" "company_hash"}}
CREATE TABLE IF NOT EXISTS {{.Local "feedback"}}{{.OnCluster}}
(
    `feedback_id` String COMMENT 'Identity: the X-Request-Id of the call that gave it',
    `organization_id` String COMMENT 'Organization that gave it',
    `at` DateTime64(6, 'UTC') COMMENT 'Time when it was given',
    `status` LowCardinality(String) COMMENT 'pending, accepted or rejected',
    `version` Int64 COMMENT 'Time of the decision in microseconds since 1970-01-01T00:00:00Z, 0 before; what ReplacingMergeTree compares',
    `content` String COMMENT 'The event as JSON' CODEC(ZSTD(1)),
    {{template "source" "event"}}
)
ENGINE = {{.ReplacingMergeTree "feedback" "version"}}
ORDER BY (feedback_id)
TTL toDateTime(at) + toIntervalDay(366)
SETTINGS {{.ReadByKey 64}}
COMMENT 'Feedback of callers about matches, with the decision of the operator';
{{.Distributed "feedback" "feedback_id"}}
