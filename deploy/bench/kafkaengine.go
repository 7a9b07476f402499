package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// kafkaTopic is a topic that ClickHouse itself consumes.
type kafkaTopic struct {
	kind    record.Kind
	columns string // of its records
	views   []kafkaView
}

// kafkaView writes rows of records to a table, with the columns but those of the source. The table derives others from
// them, with these changes of its columns.
type kafkaView struct {
	table, columns, clauses string
	changes                 []string
}

// kafkaEngine returns the statements with which ClickHouse itself consumes the topics of a projection and writes what
// the projector writes: the rows of its tables with all columns and indices, and the JSON parsed once and rendered in
// each shape. It does less than the projector: it drops unknown fields, keeps empty ones, neither limits nor sorts
// arrays, finds no email addresses and accounts in texts, does not transliterate names, splits words at all characters
// except letters and digits, and rejects only malformed JSON. Hashes of addresses, hints and linked accounts are
// missing, and so are the answers of accounts with their repositories and commits: no view can build them, since
// they combine rows of several topics.
func kafkaEngine(brokers string, p projection) (prepare, start, stop []string) {
	for _, t := range p.tables {
		prepare = append(prepare, "SYSTEM STOP MERGES "+t.table, "CREATE TABLE bench_"+t.table+" AS "+t.table)
	}
	for i, topic := range p.topics {
		source := "bench_kafka_" + strconv.Itoa(i)
		// The engine reads as soon as there is a view, and later ones miss what it has read: so they are created on
		// another table of the name.
		prepare = append(prepare, "CREATE TABLE "+source+" ("+topic.columns+
			", _topic String, _partition UInt64, _offset UInt64) ENGINE = Null")
		for _, v := range topic.views {
			if len(v.changes) > 0 {
				prepare = append(prepare, "ALTER TABLE bench_"+v.table+strings.Join(v.changes, ","))
			}
			view := source + "_" + v.table
			prepare = append(prepare, "CREATE MATERIALIZED VIEW "+view+" TO bench_"+v.table+" AS SELECT "+v.columns+
				", _topic AS topic, toInt32(_partition) AS partition, toInt64(_offset) AS offset FROM "+source+" "+v.clauses)
			stop = append(stop, "DROP TABLE "+view+" SYNC")
		}
		prepare = append(prepare, "DROP TABLE "+source+" SYNC")
		start = append(start, "CREATE TABLE "+source+" ("+topic.columns+`)
ENGINE = Kafka SETTINGS kafka_broker_list = '`+brokers+`', kafka_topic_list = '`+topic.kind.Topic()+`',
    kafka_group_name = '`+source+`', kafka_format = 'JSONEachRow', kafka_max_block_size = 20000,
    kafka_flush_interval_ms = 200, kafka_num_consumers = 1`)
		stop = append(stop, "DROP TABLE "+source+" SYNC")
	}
	return prepare, start, stop
}

// kafkaVersion returns the version of records with a field for their time.
func kafkaVersion(field string) string {
	return "toUnixTimestamp64Micro(parseDateTime64BestEffortOrZero(" + field + ", 6, 'UTC')) + 62135596800000000"
}

// kafkaLookups returns the view of lookups: pairs of a lookup type and a normalized value, from an array.
func kafkaLookups(kind record.Kind, target, version, content, pairs, clauses string) kafkaView {
	return kafkaView{table: "lookups", columns: `xxHash64(concat(transform(l.1,
        ['network.username', 'codehost.network_username', 'network.email', 'codehost.email', 'codehost.username',
            'network.codehost_username', 'network.microblog_username', 'codehost.microblog_username'],
        ['network username', 'network username', 'email', 'email', 'codehost username', 'codehost username',
            'microblog username', 'microblog username'], l.1), char(0), l.2)) AS key_hash,
    concat(l.1, char(0), l.2, char(0), '` + string(kind) + `', char(0), ` + target + `, char(0), char(0)) AS claim,
    bitOr(bitOr(bitShiftLeft(toUInt128(` + version + `), 69), bitShiftLeft(toUInt128(deleted), 36)),
    toUInt128(bitShiftRight(` + content + `, 28))) AS ver, toFloat32(1) AS confidence`,
		clauses: "ARRAY JOIN arrayFilter(x -> x.2 != '', " + pairs + ") AS l " + clauses}
}

// kafkaKeys returns the normalized usernames of a platform: that of a field and those of social accounts.
func kafkaKeys(platform string) string {
	return "arrayFilter(x -> x != '', arrayDistinct(arrayConcat([lowerUTF8(" + platform + "_username)], arrayMap(u " +
		"-> lowerUTF8(extract(u, '" + platform + "[^/]*/(?:in/)?([^/?#]+)')), social_accounts))))"
}

// kafkaFindable returns pairs of lookups by the handle and the name of a platform's people.
func kafkaFindable(platform, username string) string {
	handle := "replaceRegexpAll(lowerUTF8(" + username + "), '[-_.]|[0-9]+$', '')"
	name := "if(first_name = '' OR last_name = '', '', arrayStringConcat(arraySort([lowerUTF8(first_name), " +
		"lowerUTF8(last_name)]), ' '))"
	return "[('handle." + platform + "', " + handle + "), ('name." + platform + "', " + name + "), ('name." + platform +
		"', if(" + name + " = '', '', concat('~', replaceRegexpAll(" + name + ", '[aeiouy]', ''))))]"
}

// kafkaPresent returns the mask of the fields that are not empty.
func kafkaPresent(fields ...string) string {
	bits := make([]string, len(fields))
	for i, f := range fields {
		bits[i] = "bitShiftLeft(toUInt64(notEmpty(" + f + ")), " + strconv.Itoa(i) + ")"
	}
	return strings.Join(bits, " + ")
}

func networkPeopleTopic() kafkaTopic {
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
		content = "assumeNotNull(cityHash64(profile_id, username, first_name, middle_name, last_name, full_name, " +
			"url, photo, headline, summary, location, ifNull(connections, 0), ifNull(followers, 0), " +
			"ifNull(following, 0), current_position, experience, education, certifications, languages, skills, " +
			"codehost_username, microblog_username, social_accounts, emails, personal_email))"
		hash = "xxHash64(concat('network.profile_id', char(0), profile_id)) AS profile_hash, profile_id"
	)
	version, codehost, microblog := kafkaVersion("last_updated"), kafkaKeys("codehost"), kafkaKeys("microblog")
	present := kafkaPresent("username", "first_name", "middle_name", "last_name", "full_name", "url", "photo",
		"headline", "summary", "experience", "education", "certifications", "languages", "skills", "codehost_username",
		"microblog_username", "social_accounts", "emails", "personal_email")
	return kafkaTopic{kind: record.KindNetworkPerson, columns: `profile_id String, last_updated String, deleted Bool,
    username String, first_name String, middle_name String, last_name String,
    full_name String, url String, photo String, headline String, summary String, location ` + location + `,
    connections Nullable(Int64), followers Nullable(Int64),
    following Nullable(Int64), current_position ` + position + `, experience Array(` + position + `),
    education Array(` + study + `),
    certifications Array(` + certificate + `), languages Array(Tuple(language String, proficiency String)),
    skills Array(Tuple(skill String)),
    codehost_username String, microblog_username String, social_accounts Array(String), emails Array(String),
    personal_email String`, views: []kafkaView{
		kafkaLookups(record.KindNetworkPerson, "profile_id", version, content, `arrayConcat(
    [('network.username', lowerUTF8(username))], arrayMap(x -> ('network.email', x), `+emails+`),
    arrayMap(x -> ('network.codehost_username', x), `+codehost+`),
    arrayMap(x -> ('network.microblog_username', x), `+microblog+`), `+kafkaFindable("network", "username")+`)`, ""),
		{table: "search_people", columns: hash + ", " + version + " AS version, " + content +
			" AS content_hash, deleted,\n    " + strings.Join(searchColumns(), ",\n    "), changes: searchDefaults()},
		{table: "network_people", columns: hash + `, last_updated,
    formatDateTime(parseDateTime64BestEffortOrZero(last_updated, 6, 'UTC'), '%Y-%m-%dT%H:%i:%SZ') AS updated_at,
    ` + version + ` AS version, ` + content + ` AS content_hash, deleted, username, lowerUTF8(username) AS username_key,
    ` + emails + ` AS email_keys, ` + codehost + ` AS codehost_username_keys,
    ` + microblog + ` AS microblog_username_keys,
    concat(profile_id, char(0), toString(version), char(0, 48, 0), toString(content_hash), char(0, 48, 0), username,
    char(0), username_key, char(0),
        toString(length(email_keys)), char(0), arrayStringConcat(arrayMap(k -> concat(k, char(0)), email_keys)),
        toString(length(codehost_username_keys)), char(0), arrayStringConcat(arrayMap(k -> concat(k, char(0)),
        codehost_username_keys)),
        toString(` + present + `), char(0), '\x1eA',
    toJSONString(tuple(profile_id, username, url, tuple(first_name, middle_name, last_name, full_name, headline,
    summary, photo, connections, followers, location),
        experience, education, certifications, languages, skills, social_accounts, codehost_username,
        microblog_username)), '\x1eN',
    toJSONString(tuple(full_name, headline, current_position, experience, education, skills, certifications)), '\x1eJ',
    toJSONString(tuple(profile_id, username, first_name, middle_name, last_name, url, photo, summary, location,
    connections, followers, following, languages,
        social_accounts, codehost_username, microblog_username)), '\x1eP', toJSONString(tuple(personal_email,
        emails))) AS content`},
	}}
}

func codehostPeopleTopic() kafkaTopic {
	const (
		location = "Tuple(city String, state String, country String, country_code String, latitude " +
			"Nullable(Float64), longitude Nullable(Float64), postal_code String, continent String, label String, " +
			"timezone String)"
		emails = "arrayFilter(x -> x != '', arrayDistinct(arrayMap(x -> lowerUTF8(x), arrayConcat(emails, " +
			"[personal_email, school_email], additional_emails))))"
		// The fields that answers have twice.
		details = "avatar_url, company, location, followers, following, public_repos, public_gists, type, " +
			"created_at, updated_at"
		webset = "user_id, codehost_username, type, first_name, last_name, full_name, personal_email, school_email, " +
			"additional_emails, avatar_url, url, bio, blog, personal_website, location, location_canonical, company, " +
			"hireable, followers, following, public_repos, public_gists, created_at, updated_at, repo_languages, " +
			"commit_count, social_accounts, network_username, microblog_username, starred_repos, issues, " +
			"follower_accounts, followed_accounts"
		content = "assumeNotNull(cityHash64(user_id, codehost_username, type, first_name, last_name, full_name, " +
			"names, personal_email, school_email, additional_emails, emails, avatar_url, url, bio, blog, " +
			"personal_website, location, location_canonical, company, ifNull(hireable, false), " +
			"ifNull(followers, 0), ifNull(following, 0), ifNull(public_repos, 0), ifNull(public_gists, 0), " +
			"created_at, updated_at, repo_languages, ifNull(commit_count, 0), social_accounts, network_username, " +
			"microblog_username, starred_repos, issues, follower_accounts, followed_accounts))"
	)
	version, network, microblog := kafkaVersion("last_updated"), kafkaKeys("network"), kafkaKeys("microblog")
	present := kafkaPresent("type", "first_name", "last_name", "full_name", "personal_email", "school_email",
		"additional_emails", "emails", "avatar_url", "url", "bio", "blog", "personal_website", "location", "company",
		"created_at", "updated_at", "repo_languages", "social_accounts", "network_username", "microblog_username",
		"starred_repos", "issues", "follower_accounts", "followed_accounts")
	return kafkaTopic{kind: record.KindCodehostPerson, columns: `user_id Int64, last_updated String, deleted Bool,
    codehost_username String, type String, first_name String, last_name String, full_name String, names Array(String),
    avatar_url String, url String, bio String, blog String, location String, location_canonical ` + location + `,
    company String, hireable Nullable(Bool), followers Nullable(Int64), following Nullable(Int64),
    public_repos Nullable(Int64), public_gists Nullable(Int64), created_at String, updated_at String,
    repo_languages Array(String), commit_count Nullable(Int64), personal_email String, school_email String,
    additional_emails Array(String), emails Array(String), personal_website String, social_accounts Array(String),
    network_username String, microblog_username String, starred_repos Array(String), issues Array(String),
    follower_accounts Array(String), followed_accounts Array(String)`, views: []kafkaView{
		kafkaLookups(record.KindCodehostPerson, "toString(user_id)", version, content, `arrayConcat(
    [('codehost.username', lowerUTF8(codehost_username))], arrayMap(x -> ('codehost.email', x), `+emails+`),
    arrayMap(x -> ('codehost.network_username', x), `+network+`),
    arrayMap(x -> ('codehost.microblog_username', x), `+microblog+`),
    if(type IN ('Organization', 'Bot'), [], `+kafkaFindable("codehost", "codehost_username")+`))`, ""),
		{table: "codehost_people", columns: `user_id, last_updated, ` + version + ` AS version,
    ` + content + ` AS content_hash, deleted, codehost_username, lowerUTF8(codehost_username) AS username_key, type,
    ` + emails + ` AS email_keys, network_username, ` + network + ` AS network_username_keys,
    ` + microblog + ` AS microblog_username_keys, ` + present + ` AS present,
    concat(arrayStringConcat(arrayMap(x -> concat(x, char(0)), arrayConcat([full_name], names, email_keys, emails))),
    '\x1eP', toJSONString(tuple(user_id, codehost_username, avatar_url)), '\x1eA',
    toJSONString(tuple(tuple(user_id, codehost_username, ` + details + `), user_id, codehost_username, ` + details + `,
        first_name, last_name, full_name, bio, blog, url, personal_website, microblog_username, hireable,
        social_accounts, location_canonical, repo_languages, commit_count)), '\x1eB',
    toJSONString(tuple(` + webset + `)), '\x1eL',
    toJSONString(tuple(user_id, codehost_username, full_name, url, bio, avatar_url, blog, personal_website, company,
        location, type, hireable, followers, following, public_repos, public_gists, commit_count, created_at,
        updated_at, repo_languages, starred_repos, issues))) AS content`},
	}}
}

func codehostReposTopic() kafkaTopic {
	const fields = "id, name, full_name, description, language, stargazers_count, forks_count, topics, created_at, " +
		"updated_at"
	return kafkaTopic{kind: record.KindCodehostRepo, columns: `user_id Int64, id Int64, updated_at String, deleted Bool,
    name String, full_name String, created_at String, description String, language String,
    stargazers_count Nullable(Int64), forks_count Nullable(Int64), topics Array(String)`, views: []kafkaView{
		{table: "codehost_repos", columns: `user_id, id AS repo_id, ` + kafkaVersion("updated_at") + ` AS version,
    assumeNotNull(cityHash64(id, name, full_name, description, language, ifNull(stargazers_count, 0),
        ifNull(forks_count, 0), topics, created_at, updated_at)) AS content_hash, deleted,
    concat(language, char(0), '\x1eA', toJSONString(tuple(` + fields + `)), '\x1eN',
    toJSONString(tuple(` + fields + `))) AS content`},
	}}
}

func codehostCommitsTopic() kafkaTopic {
	const (
		fields = "sha, message, author_name, author_email, author_login, author_date, repo"
		// Like the projector, it indexes no addresses that contain the account.
		email   = "if(author_email LIKE '%@users.noreply.%', '', lowerUTF8(author_email))"
		content = "cityHash64(" + fields + ")"
	)
	version := kafkaVersion("author_date")
	return kafkaTopic{kind: record.KindCodehostCommit, columns: `user_id Int64, sha String, author_date String,
    deleted Bool, message String, author_name String, author_email String, author_login String,
    repo Tuple(full_name String, language String)`, views: []kafkaView{
		kafkaLookups(record.KindCodehostPerson, "toString(user_id)", version, content,
			"[('codehost.email', "+email+")]", "LIMIT 1 BY user_id, author_email"),
		{table: "codehost_commits", columns: `user_id, sha, ` + version + ` AS version, ` + content + ` AS content_hash,
    deleted, concat(lowerUTF8(author_login), char(0), author_name, char(0), ` + email + `, char(0), author_email,
    char(0), '\x1eD', toJSONString(tuple(sha, message, author_name, author_login, author_date, repo)), '\x1eK',
    toJSONString(tuple(` + fields + `))) AS content`},
	}}
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
