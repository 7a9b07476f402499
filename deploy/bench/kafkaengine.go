package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"muster/schemas/readmodel"
)

// kafkaEngine returns the statements with which ClickHouse itself consumes the topic of network people and writes
// what the projector writes: the rows of network_people, lookups and search_people with all columns and indices,
// and the JSON parsed once and rendered in each shape. It does less than the projector: it drops unknown fields,
// keeps empty ones, neither limits nor sorts arrays, finds no email addresses and accounts in texts, does not
// transliterate names, splits words at all characters except letters and digits, and rejects only malformed JSON.
func kafkaEngine(brokers, topic, suffix string) (prepare, start, stop []string) {
	const (
		location = "Tuple(city String, state String, country String, country_code String, continent String, " +
			"raw_address String)"
		company  = "Tuple(name String, network_url String, company_id String)"
		position = "Tuple(summary String, title String, description String, start String, end String, current " +
			"Nullable(Bool), location " + location + ", company " + company + ")"
		study = "Tuple(summary String, start String, end String, current Nullable(Bool), location " + location +
			", degrees Array(String), majors Array(String), minors Array(String), field_of_study String, school " +
			"Tuple(name String, network_url String, school_id String))"
		certificate = "Tuple(credential_id String, credential_url String, issuer String, name String, issue_date " +
			"String)"

		emails = "arrayFilter(x -> x != '', arrayDistinct(arrayMap(x -> lowerUTF8(x), arrayConcat(emails, " +
			"[personal_email]))))"
		codehost = "arrayFilter(x -> x != '', arrayDistinct(arrayConcat([lowerUTF8(codehost_username)], arrayMap(u " +
			"-> lowerUTF8(extract(u, 'codehost[^/]*/([^/?#]+)')), social_accounts))))"
		microblog = "arrayFilter(x -> x != '', arrayDistinct(arrayConcat([lowerUTF8(microblog_username)], " +
			"arrayMap(u -> lowerUTF8(extract(u, 'microblog[^/]*/([^/?#]+)')), social_accounts))))"
		version = "toUnixTimestamp64Micro(parseDateTime64BestEffortOrZero(last_updated, 6, 'UTC')) + " +
			"62135596800000000"
		content = "assumeNotNull(cityHash64(profile_id, username, first_name, middle_name, last_name, full_name, " +
			"url, photo, headline, summary, location, ifNull(connections, 0), ifNull(followers, 0), " +
			"ifNull(following, 0), current_position, experience, education, certifications, languages, skills, " +
			"codehost_username, microblog_username, social_accounts, emails, personal_email))"
	)
	const (
		handle = "replaceRegexpAll(lowerUTF8(username), '[-_.]|[0-9]+$', '')"
		name   = "if(first_name = '' OR last_name = '', '', arrayStringConcat(arraySort([lowerUTF8(first_name), " +
			"lowerUTF8(last_name)]), ' '))"
	)
	var present []string
	for i, c := range []string{
		"username", "first_name", "middle_name", "last_name", "full_name", "url", "photo", "headline", "summary",
		"experience", "education",
		"certifications", "languages", "skills", "codehost_username", "microblog_username", "social_accounts", "emails",
		"personal_email",
	} {
		present = append(present, "bitShiftLeft(toUInt64(notEmpty("+c+")), "+string(rune('0'+i/10))+
			string(rune('0'+i%10))+")")
	}
	source := "bench_kafka_" + suffix
	prepare = []string{
		"CREATE TABLE bench_people_" + suffix + " AS network_people",
		"CREATE TABLE bench_lookups_" + suffix + " AS lookups",
		"CREATE TABLE bench_search_" + suffix + " AS search_people",
		"ALTER TABLE bench_search_" + suffix + strings.Join(searchDefaults(), ","),
		`CREATE TABLE ` + source + ` (profile_id String, last_updated String, deleted Bool, username String,
		    first_name String, middle_name String, last_name String,
    full_name String, url String, photo String, headline String, summary String, location ` + location + `,
    connections Nullable(Int64), followers Nullable(Int64),
    following Nullable(Int64), current_position ` + position + `, experience Array(` + position + `),
    education Array(` + study + `),
    certifications Array(` + certificate + `), languages Array(Tuple(language String, proficiency String)),
    skills Array(Tuple(skill String)),
    codehost_username String, microblog_username String, social_accounts Array(String), emails Array(String),
    personal_email String)
ENGINE = Kafka SETTINGS kafka_broker_list = '` + brokers + `', kafka_topic_list = '` + topic + `',
    kafka_group_name = 'bench-` + suffix + `',
    kafka_format = 'JSONEachRow', kafka_max_block_size = 20000, kafka_flush_interval_ms = 200, kafka_num_consumers = 1`,
	}
	lookups := `CREATE MATERIALIZED VIEW bench_lookups_mv_` + suffix + ` TO bench_lookups_` + suffix + ` AS
SELECT xxHash64(concat(transform(l.1, ['network.username', 'network.email', 'network.codehost_username',
    'network.microblog_username'],
        ['network username', 'email', 'codehost username', 'microblog username'], l.1), char(0), l.2)) AS key_hash,
        concat(l.1, char(0), l.2, char(0), 'network-person', char(0), profile_id, char(0), char(0)) AS claim,
    bitOr(bitOr(bitShiftLeft(toUInt128(` + version + `), 69), bitShiftLeft(toUInt128(deleted), 36)),
    toUInt128(bitShiftRight(` + content + `, 28))) AS ver, toFloat32(1) AS confidence,
    _topic AS topic, toInt32(_partition) AS partition, toInt64(_offset) AS offset
FROM ` + source + `
ARRAY JOIN arrayConcat([('network.username', lowerUTF8(username))], arrayMap(x -> ('network.email', x), ` + emails + `),
    arrayMap(x -> ('network.codehost_username', x), ` + codehost + `), arrayMap(x -> ('network.microblog_username',
    x), ` + microblog + `),
    arrayFilter(x -> x.2 != '', [('handle.network', ` + handle + `), ('name.network', ` + name + `),
    ('name.network', concat('~', replaceRegexpAll(` + name + `, '[aeiouy]', '')))])) AS l`
	people := `CREATE MATERIALIZED VIEW bench_people_mv_` + suffix + ` TO bench_people_` + suffix + ` AS
SELECT xxHash64(concat('network.profile_id', char(0), profile_id)) AS profile_hash, profile_id, last_updated,
    formatDateTime(parseDateTime64BestEffortOrZero(last_updated, 6, 'UTC'), '%Y-%m-%dT%H:%i:%SZ') AS updated_at,
    ` + version + ` AS version, ` + content + ` AS content_hash, deleted, username, lowerUTF8(username) AS username_key,
    ` + emails + ` AS email_keys, ` + codehost + ` AS codehost_username_keys,
    ` + microblog + ` AS microblog_username_keys,
    concat(profile_id, char(0), toString(version), char(0, 48, 0), toString(content_hash), char(0, 48, 0), username,
    char(0), username_key, char(0),
        toString(length(email_keys)), char(0), arrayStringConcat(arrayMap(k -> concat(k, char(0)), email_keys)),
        toString(length(codehost_username_keys)), char(0), arrayStringConcat(arrayMap(k -> concat(k, char(0)),
        codehost_username_keys)),
        toString(` + strings.Join(present, " + ") + `), char(0), '\x1eA',
    toJSONString(tuple(profile_id, username, url, tuple(first_name, middle_name, last_name, full_name, headline,
    summary, photo, connections, followers, location),
        experience, education, certifications, languages, skills, social_accounts, codehost_username,
        microblog_username)), '\x1eN',
    toJSONString(tuple(full_name, headline, current_position, experience, education, skills, certifications)), '\x1eJ',
    toJSONString(tuple(profile_id, username, first_name, middle_name, last_name, url, photo, summary, location,
    connections, followers, following, languages,
        social_accounts, codehost_username, microblog_username)), '\x1eP', toJSONString(tuple(personal_email,
        emails))) AS content,
    _topic AS topic, toInt32(_partition) AS partition, toInt64(_offset) AS offset
FROM ` + source
	search := `CREATE MATERIALIZED VIEW bench_search_mv_` + suffix + ` TO bench_search_` + suffix + ` AS
SELECT xxHash64(concat('network.profile_id', char(0), profile_id)) AS profile_hash, profile_id, ` + version + `
    AS version, ` + content + ` AS content_hash, deleted,
    ` + strings.Join(searchColumns(), ",\n    ") + `,
    _topic AS topic, toInt32(_partition) AS partition, toInt64(_offset) AS offset
FROM ` + source
	stop = []string{
		"DROP TABLE bench_search_mv_" + suffix + " SYNC", "DROP TABLE bench_people_mv_" + suffix + " SYNC",
		"DROP TABLE bench_lookups_mv_" + suffix + " SYNC", "DROP TABLE " + source + " SYNC",
	}
	return prepare, []string{lookups, search, people}, stop
}

// searchDefaults returns the changes that make a table like search_people derive columns from tokens like the
// projector.
func searchDefaults() (changes []string) {
	lists := make(map[string][]string) // by column of repeats
	for _, f := range readmodel.SearchFields() {
		if f.Type != readmodel.SearchText || f.Linked {
			continue
		}
		// The occurrences in elements, each with whether it is the first one of its element.
		add := func(kind, elements string) {
			pairs := "arrayFlatten(arrayMap(e -> arrayMap((t, n) -> (t, n = 1), e, arrayEnumerateUniq(e)), " +
				elements + "))"
			lists[f.Repeats()] = append(lists[f.Repeats()], "arrayMap(p -> bitOr(bitAnd(xxHash64(concat('"+
				f.Column+"', char("+kind+"), p.1)), bitNot(toUInt64(1))), toUInt64(p.2)), "+
				"arrayFilter((p, n) -> n > 1, "+pairs+", arrayEnumerateUniq(arrayMap(p -> p.1, "+pairs+"))))")
		}
		if f.Nested == "" {
			add("0", "["+f.Tokens()+"]")
			continue
		}
		add("0", f.Tokens())
		add("1", "arrayMap(v -> if(v = '' OR length(v) > 256, [], [v]), "+f.Column+")")
	}
	for _, column := range slices.Sorted(maps.Keys(lists)) {
		changes = append(changes,
			" MODIFY COLUMN "+column+" DEFAULT arrayConcat("+strings.Join(lists[column], ", ")+")")
	}
	return changes
}

// searchColumns returns the columns of search_people, without those that its defaults derive.
func searchColumns() []string {
	date := func(value string) string {
		return "if(" + value + " = '', " + fmt.Sprint(readmodel.SearchMissing) +
			", toUnixTimestamp64Milli(parseDateTime64BestEffortOrZero(" + value + ", 3, 'UTC')))"
	}
	from := map[string]string{
		"network_url": "url", "network_username": "username", "profile_id": "profile_id",
		"updated_at":         date("last_updated"),
		"profile.first_name": "first_name", "profile.last_name": "last_name", "profile.full_name": "full_name",
		"profile.headline": "headline", "profile.summary": "summary", "profile.image_url": "photo",
		"profile.connections":          fmt.Sprintf("ifNull(connections, %d)", readmodel.SearchMissing),
		"profile.followers":            fmt.Sprintf("ifNull(followers, %d)", readmodel.SearchMissing),
		"profile.location.raw_address": "location.raw_address", "profile.location.country": "location.country",
		"profile.location.country_code": "location.country_code", "profile.location.city": "location.city",
		"profile.location.state": "location.state", "profile.location.continent": "location.continent",
		"current_position.title": "if(current_position.title != '', current_position.title, " +
			"current_position.summary)",
		"current_position.company_name": "current_position.company.name",
		"current_position.company_id":   "current_position.company.company_id",
		"current_position.start_date":   date("current_position.start"),
		"experience_count":              "length(experience)", "education_count": "length(education)",
		"years_of_experience": "toInt64(floor(arraySum(e -> dateDiff('month', " +
			"parseDateTimeBestEffortOrZero(e.start), parseDateTimeBestEffortOrZero(e.end)), experience) / 12))",
		"skills.skill":            "e.skill",
		"profile.personal_email":  "if(personal_email != '', personal_email, emails[1])",
		"experience.title":        "if(e.title != '', e.title, e.summary)",
		"experience.company_name": "e.company.name", "experience.company_id": "e.company.company_id",
		"experience.company_url": "e.company.network_url",
		"experience.location": "if(e.location.raw_address != '', e.location.raw_address, concat(e.location.city, " +
			"', ', e.location.state, ', ', e.location.country))",
		"experience.description": "if(e.title != '' AND e.description = '', e.summary, e.description)",
		"experience.start_date":  date("e.start"), "experience.end_date": date("e.end"),
		"experience.is_current": "toUInt8(ifNull(e.current, e.end = ''))",
		"education.school_name": "e.school.name", "education.school_id": "e.school.school_id",
		"education.school_url":     "e.school.network_url",
		"education.degree":         "arrayStringConcat(e.degrees, ', ')",
		"education.field_of_study": "if(e.field_of_study != '', e.field_of_study, arrayStringConcat(e.majors, ', '))",
		"education.start_date":     date("e.start"), "education.end_date": date("e.end"),
		"certifications.name": "e.name", "certifications.issuer": "e.issuer",
		"certifications.issue_date": date("e.issue_date"),
		"languages.language":        "e.language", "languages.proficiency": "e.proficiency",
	}
	var columns []string
	for _, f := range readmodel.SearchFields() {
		if f.Linked { // not in the table
			continue
		}
		value := from[f.Path]
		tokens := "splitByNonAlpha(lowerUTF8(" + value + "))"
		if f.Nested != "" {
			value, tokens = "arrayMap(e -> "+value+", "+f.Nested+")", "arrayMap(e -> "+tokens+", "+f.Nested+")"
		}
		if f.Path != "profile_id" { // already present
			columns = append(columns, value+" AS "+f.Column)
		}
		if f.Type == readmodel.SearchText {
			columns = append(columns, tokens+" AS "+f.Tokens())
		}
	}
	return columns
}
