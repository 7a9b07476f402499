package record_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/record"
)

// defect is an invalid record with the expected error.
type defect struct {
	name string
	kind record.Kind
	raw  string
	code string
	path string
	// schemaAccepts marks errors that JSON Schema cannot express, or that ours omits.
	schemaAccepts bool
}

func defects() []defect {
	const (
		np  = record.KindNetworkPerson
		nc  = record.KindNetworkCompany
		cp  = record.KindCodehostPerson
		cr  = record.KindCodehostRepo
		cc  = record.KindCodehostCommit
		mp  = record.KindMicroblogPerson
		al  = record.KindAccountLink
		cl  = record.KindCodehostList
		er  = record.KindErasure
		ok  = `"profile_id":"p","username":"u","last_updated":"2026"`
		okc = `"user_id":1,"codehost_username":"u","last_updated":"2026"`
		okr = `"user_id":1,"id":2,"updated_at":"2026"`
		oka = `"a":{"platform":"network","username":"x"},"b":{"platform":"codehost","username":"y"},"source":"s",` +
			`"observed_at":"2026"`
	)
	with := func(base, more string) string { return "{" + base + "," + more + "}" }
	return []defect{
		{name: "unknown kind", kind: "", raw: `{}`, code: record.CodeUnknownKind},
		{name: "too large", kind: np, raw: with(ok, `"summary":"`+strings.Repeat("x", record.MaxSize)+`"`),
			code: record.CodeTooLarge, schemaAccepts: true},

		{name: "erasure without identifiers", kind: er, raw: `{"identifiers":[],"requested_at":"2026"}`,
			code: record.CodeMissingIdentity, path: "identifiers"},
		{name: "erasure without a list", kind: er, raw: `{"requested_at":"2026"}`, code: record.CodeMissingIdentity,
			path: "identifiers"},
		{name: "erasure by an unknown type", kind: er, raw: `{"identifiers":[{"type":"name","value":"x"}],` +
			`"requested_at":"2026"}`, code: record.CodeBadIdentity, path: "identifiers[0].type"},
		{name: "erasure without a value", kind: er, raw: `{"identifiers":[{"type":"email"}],"requested_at":"2026"}`,
			code: record.CodeMissingIdentity, path: "identifiers[0].value"},
		{name: "erasure by value and hash", kind: er, raw: `{"identifiers":[{"type":"email","value":"a@b.c",` +
			`"sha256":"` + strings.Repeat("0", 64) + `"}],"requested_at":"2026"}`, code: record.CodeBadIdentity,
			path: "identifiers[0].sha256"},
		{name: "erasure by a short hash", kind: er, raw: `{"identifiers":[{"type":"email","sha256":"abcd"}],` +
			`"requested_at":"2026"}`, code: record.CodeBadIdentity, path: "identifiers[0].sha256"},
		{name: "erasure of very many", kind: er, raw: `{"identifiers":[` +
			strings.Repeat(`{"type":"email","value":"a@b.c"},`, record.MaxIdentifiers) + `{"type":"email",` +
			`"value":"a@b.c"}],"requested_at":"2026"}`, code: record.CodeBadIdentity, path: "identifiers"},
		{name: "erasure in an unknown scope", kind: er, raw: `{"identifiers":[{"type":"email","value":"a@b.c"}],` +
			`"scope":"some","requested_at":"2026"}`, code: record.CodeBadValue, path: "scope"},
		{name: "erasure without time", kind: er, raw: `{"identifiers":[{"type":"email","value":"a@b.c"}]}`,
			code: record.CodeMissingVersion, path: "requested_at"},

		{name: "empty", kind: np, raw: "", code: record.CodeSyntax},
		{name: "white space only", kind: np, raw: " \t ", code: record.CodeSyntax},
		{name: "truncated", kind: np, raw: `{"profile_id":"p","username":`, code: record.CodeSyntax, path: "username"},
		{name: "truncated in a string", kind: np, raw: `{"profile_id":"p`, code: record.CodeSyntax, path: "profile_id"},
		{name: "two objects", kind: np, raw: `{` + ok + `}{}`, code: record.CodeSyntax},
		{name: "text behind", kind: np, raw: `{` + ok + `}x`, code: record.CodeSyntax},
		{name: "trailing comma", kind: np, raw: `{` + ok + `,}`, code: record.CodeSyntax},
		{name: "trailing comma in a list", kind: np, raw: with(ok, `"emails":["a",]`), code: record.CodeSyntax,
			path: "emails"},
		{name: "comment", kind: np, raw: `{/* hm */` + ok + `}`, code: record.CodeSyntax},
		{name: "single quotes", kind: np, raw: `{'profile_id':'p'}`, code: record.CodeSyntax},
		{name: "byte order mark", kind: np, raw: "\ufeff{" + ok + "}", code: record.CodeSyntax},
		{name: "NaN", kind: np, raw: with(ok, `"connections":NaN`), code: record.CodeSyntax, path: "connections"},
		{name: "leading zero", kind: np, raw: with(ok, `"connections":007`), code: record.CodeSyntax},
		{name: "raw control character", kind: np, raw: with(ok, "\"summary\":\"a\nb\""), code: record.CodeSyntax,
			path: "summary"},
		{name: "bad escape", kind: np, raw: with(ok, `"summary":"\x41"`), code: record.CodeSyntax, path: "summary"},
		{name: "list", kind: np, raw: `[{}]`, code: record.CodeWrongType},
		{name: "string", kind: np, raw: `"p"`, code: record.CodeWrongType},
		{name: "null", kind: np, raw: `null`, code: record.CodeWrongType},

		{name: "duplicate key", kind: np, raw: with(ok, `"username":"v"`), code: record.CodeDuplicateKey,
			path: "username", schemaAccepts: true},
		{name: "duplicate key, escaped", kind: np, raw: with(ok, `"usern\u0061me":"v"`), code: record.CodeDuplicateKey,
			path: "username", schemaAccepts: true},
		{name: "duplicate key below", kind: np, raw: with(ok, `"location":{"city":"a","city":"b"}`),
			code: record.CodeDuplicateKey, path: "location.city", schemaAccepts: true},
		{name: "duplicate unknown key", kind: np, raw: with(ok, `"x":{"y":[{"z":1,"z":2}]}`),
			code: record.CodeDuplicateKey, path: "x.y[0].z", schemaAccepts: true},
		{name: "bad UTF-8", kind: np, raw: with(ok, "\"summary\":\"\xff\""), code: record.CodeBadUTF8, path: "summary",
			schemaAccepts: true},
		{name: "bad UTF-8 in an unknown field", kind: np, raw: with(ok, "\"x\":[\"\xc3\x28\"]"),
			code: record.CodeBadUTF8, path: "x[0]", schemaAccepts: true},
		{name: "overlong UTF-8", kind: np, raw: with(ok, "\"summary\":\"\xc0\x80\""), code: record.CodeBadUTF8,
			path: "summary", schemaAccepts: true},
		{name: "unpaired surrogate", kind: np, raw: with(ok, `"summary":"\ud83d!"`), code: record.CodeBadUTF8,
			path: "summary", schemaAccepts: true},
		{name: "raw NUL", kind: np, raw: with(ok, "\"summary\":\"\x00\""), code: record.CodeNULByte, path: "summary",
			schemaAccepts: true},
		{name: "escaped NUL", kind: np, raw: with(ok, `"emails":["a","b\u0000"]`), code: record.CodeNULByte,
			path: "emails[1]", schemaAccepts: true},
		{name: "escaped NUL in an unknown name", kind: np, raw: with(ok, `"x":{"\u0000":1}`), code: record.CodeNULByte,
			path: "x.\ufffd", schemaAccepts: true},
		{name: "too deep", kind: np, raw: with(ok, `"x":`+strings.Repeat("[", 64)+strings.Repeat("]", 64)),
			code: record.CodeTooDeep, path: "x" + strings.Repeat("[0]", 63), schemaAccepts: true},
		{name: "far too deep", kind: np, raw: with(ok, `"x":`+strings.Repeat(`{"a":`, 9000)+"1"+strings.Repeat("}",
			9000)), code: record.CodeTooDeep, path: "x" + strings.Repeat(".a", 63), schemaAccepts: true},
		{name: "absurdly deep", kind: np, raw: with(ok, `"x":`+strings.Repeat("[", 100_000)+strings.Repeat("]",
			100_000)), code: record.CodeTooDeep, path: "x" + strings.Repeat("[0]", 63), schemaAccepts: true},

		{name: "wrong type of identity", kind: np, raw: `{"profile_id":7,"username":"u","last_updated":"2026"}`,
			code: record.CodeWrongType, path: "profile_id"},
		{name: "wrong type of version", kind: np, raw: `{"profile_id":"p","username":"u","last_updated":1767225600}`,
			code: record.CodeWrongType, path: "last_updated"},
		{
			name: "number for a string",
			kind: np,
			raw:  with(ok, `"headline":1`),
			code: record.CodeWrongType,
			path: "headline",
		},
		{name: "string for a number", kind: np, raw: with(ok, `"connections":"500+"`), code: record.CodeWrongType,
			path: "connections"},
		{name: "fraction for an integer", kind: np, raw: with(ok, `"connections":1.5`), code: record.CodeWrongType,
			path: "connections"},
		{name: "object for a list", kind: np, raw: with(ok, `"experience":{}`), code: record.CodeWrongType,
			path: "experience"},
		{
			name: "list for an object",
			kind: np,
			raw:  with(ok, `"location":[]`),
			code: record.CodeWrongType,
			path: "location",
		},
		{name: "string for an object", kind: np, raw: with(ok, `"location":"Lagos"`), code: record.CodeWrongType,
			path: "location"},
		{name: "string for a skill", kind: np, raw: with(ok, `"skills":["Go"]`), code: record.CodeWrongType,
			path: "skills[0]"},
		{name: "string for a boolean", kind: np, raw: with(ok, `"experience":[{},{"current":"yes"}]`),
			code: record.CodeWrongType, path: "experience[1].current"},
		{name: "number for a date", kind: np, raw: with(ok, `"experience":[{"start":2019}]`),
			code: record.CodeWrongType, path: "experience[0].start"},
		{name: "deeply nested wrong type", kind: np, raw: with(ok, `"experience":[{},{},{},`+
			`{"company":{"name":["x"]}}]`),
			code: record.CodeWrongType, path: "experience[3].company.name"},
		{name: "object for a personal e-mail", kind: np, raw: with(ok, `"personal_email":{"email":"x@y.example"}`),
			code: record.CodeWrongType, path: "personal_email"},
		{
			name: "string for deleted",
			kind: np,
			raw:  with(ok, `"deleted":"yes"`),
			code: record.CodeWrongType,
			path: "deleted",
		},
		{name: "integer out of range", kind: np, raw: with(ok, `"connections":9223372036854775808`),
			code: record.CodeOutOfRange, path: "connections", schemaAccepts: true},
		{name: "float out of range", kind: cp, raw: with(okc, `"location_canonical":{"latitude":1e999}`),
			code: record.CodeOutOfRange, path: "location_canonical.latitude", schemaAccepts: true},

		{name: "no identity", kind: np, raw: `{"username":"u","last_updated":"2026"}`, code: record.CodeMissingIdentity,
			path: "profile_id"},
		{name: "null identity", kind: np, raw: `{"profile_id":null,"username":"u","last_updated":"2026"}`,
			code: record.CodeMissingIdentity, path: "profile_id"},
		{name: "blank identity", kind: np, raw: `{"profile_id":" ","username":"u","last_updated":"2026"}`,
			code: record.CodeMissingIdentity, path: "profile_id"},
		{name: "identity in another letter case", kind: np, raw: `{"Profile_ID":"p","username":"u",` +
			`"last_updated":"2026"}`, code: record.CodeMissingIdentity, path: "profile_id"},
		{name: "long identity", kind: np, raw: `{"profile_id":"` + strings.Repeat("p", 513) +
			`","username":"u","last_updated":"2026"}`, code: record.CodeBadIdentity, path: "profile_id"},
		{name: "line feed in the identity", kind: np, raw: `{"profile_id":"p\n1","username":"u","last_updated":"2026"}`,
			code: record.CodeBadIdentity, path: "profile_id", schemaAccepts: true},
		{name: "no version", kind: np, raw: `{"profile_id":"p","username":"u"}`, code: record.CodeMissingVersion,
			path: "last_updated"},
		{name: "empty version", kind: np, raw: `{"profile_id":"p","username":"u","last_updated":""}`,
			code: record.CodeMissingVersion, path: "last_updated"},
		{name: "bad version", kind: np, raw: `{"profile_id":"p","username":"u","last_updated":"yesterday"}`,
			code: record.CodeBadDate, path: "last_updated"},
		{name: "withdrawal without version", kind: np, raw: `{"profile_id":"p","deleted":true}`,
			code: record.CodeMissingVersion, path: "last_updated"},
		{name: "withdrawal without identity", kind: np, raw: `{"last_updated":"2026","deleted":true}`,
			code: record.CodeMissingIdentity, path: "profile_id"},
		{name: "no username", kind: np, raw: `{"profile_id":"p","last_updated":"2026"}`, code: record.CodeMissingField,
			path: "username"},
		{name: "blank username", kind: np, raw: `{"profile_id":"p","username":" ","last_updated":"2026"}`,
			code: record.CodeMissingField, path: "username"},

		{name: "month 13", kind: np, raw: with(ok, `"experience":[{"start":"2019-13"}]`), code: record.CodeBadDate,
			path: "experience[0].start", schemaAccepts: true},
		{name: "30 February", kind: np, raw: with(ok, `"education":[{"end":"2019-02-30"}]`), code: record.CodeBadDate,
			path: "education[0].end", schemaAccepts: true},
		{name: "year 0", kind: np, raw: with(ok, `"current_position":{"start":"0000"}`), code: record.CodeBadDate,
			path: "current_position.start", schemaAccepts: true},
		{name: "word for a date", kind: np, raw: with(ok, `"experience":[{"end":"Present"}]`), code: record.CodeBadDate,
			path: "experience[0].end"},
		{name: "word for a date after a valid position", kind: np,
			raw:  with(ok, `"current_position":{"start":"2019"},"experience":[{"end":"Present"}]`),
			code: record.CodeBadDate, path: "experience[0].end"},
		{name: "slashes in a date", kind: np, raw: with(ok, `"certifications":[{},{"issue_date":"03/2019"}]`),
			code: record.CodeBadDate, path: "certifications[1].issue_date"},
		{name: "time 25:00", kind: cp, raw: with(okc, `"created_at":"2019-01-01T25:00:00Z"`), code: record.CodeBadDate,
			path: "created_at", schemaAccepts: true},
		{name: "bad updated_at", kind: cp, raw: with(okc, `"updated_at":"2019-1-1"`), code: record.CodeBadDate,
			path: "updated_at"},

		{name: "company without identity", kind: nc, raw: `{"last_updated":"2026"}`, code: record.CodeMissingIdentity,
			path: "company_id"},
		{name: "company founded in words", kind: nc, raw: `{"company_id":"c","last_updated":"2026",` +
			`"profile":{"founded":"1999"}}`, code: record.CodeWrongType, path: "profile.founded"},
		{name: "company's network_id as a number", kind: nc, raw: `{"company_id":"c","last_updated":"2026",` +
			`"network_id":7}`, code: record.CodeWrongType, path: "network_id"},

		{name: "user_id as a string", kind: cp, raw: `{"user_id":"1","codehost_username":"u","last_updated":"2026"}`,
			code: record.CodeWrongType, path: "user_id"},
		{name: "negative user_id", kind: cp, raw: `{"user_id":-1,"codehost_username":"u","last_updated":"2026"}`,
			code: record.CodeBadIdentity, path: "user_id"},
		{name: "no user_id", kind: cp, raw: `{"codehost_username":"u","last_updated":"2026"}`,
			code: record.CodeMissingIdentity, path: "user_id"},
		{name: "no codehost_username", kind: cp, raw: `{"user_id":1,"last_updated":"2026"}`,
			code: record.CodeMissingField, path: "codehost_username"},
		{name: "account type of a wrong type", kind: cp, raw: with(okc, `"type":["Robot"]`), code: record.CodeWrongType,
			path: "type"},
		{name: "string for the repositories", kind: cp, raw: with(okc, `"repos":"none"`), code: record.CodeWrongType,
			path: "repos"},
		{name: "object for the commits", kind: cp, raw: with(okc, `"commits":{}`), code: record.CodeWrongType,
			path: "commits"},
		{name: "string for repos_complete", kind: cp, raw: with(okc, `"repos_complete":"true"`),
			code: record.CodeWrongType, path: "repos_complete"},

		{name: "repository without owner", kind: cr, raw: `{"id":2,"updated_at":"2026"}`,
			code: record.CodeMissingIdentity, path: "user_id"},
		{name: "repository without id", kind: cr, raw: `{"user_id":1,"updated_at":"2026"}`,
			code: record.CodeMissingIdentity, path: "id"},
		{name: "repository without version", kind: cr, raw: `{"user_id":1,"id":2}`, code: record.CodeMissingVersion,
			path: "updated_at"},
		{name: "repository with bad created_at", kind: cr, raw: with(okr, `"created_at":"long ago"`),
			code: record.CodeBadDate, path: "created_at"},
		{name: "topics in one string", kind: cr, raw: with(okr, `"topics":"a,b"`), code: record.CodeWrongType,
			path: "topics"},
		{name: "commit without sha", kind: cc, raw: `{"user_id":1,"author_date":"2026"}`,
			code: record.CodeMissingIdentity, path: "sha"},
		{name: "commit with an object as author", kind: cc, raw: `{"user_id":1,"sha":"a","author_date":"2026",` +
			`"author_name":{}}`, code: record.CodeWrongType, path: "author_name"},
		{name: "microblog user_id as a number", kind: mp, raw: `{"user_id":5,"last_updated":"2026"}`,
			code: record.CodeWrongType, path: "user_id"},
		{name: "unknown microblog account type", kind: mp, raw: `{"user_id":"5","last_updated":"2026",` +
			`"account_type":"robot"}`, code: record.CodeBadValue, path: "account_type"},

		{name: "link without a", kind: al, raw: `{"b":{"platform":"codehost","username":"y"},"source":"s",` +
			`"observed_at":"2026"}`, code: record.CodeMissingIdentity, path: "a.platform"},
		{name: "link with an unknown platform", kind: al,
			raw: `{"a":{"platform":"myspace","username":"x"},"b":{"platform":"codehost","username":"y"},"source":"s",` +
				`"observed_at":"2026"}`, code: record.CodeBadIdentity, path: "a.platform"},
		{name: "link without a username", kind: al,
			raw: `{"a":{"platform":"network","username":"x"},"b":{"platform":"codehost"},"source":"s",` +
				`"observed_at":"2026"}`, code: record.CodeMissingIdentity, path: "b.username"},
		{name: "link with an impossible username", kind: al,
			raw: `{"a":{"platform":"network","username":"x y"},"b":{"platform":"codehost","username":"y"},` +
				`"source":"s","observed_at":"2026"}`, code: record.CodeBadIdentity, path: "a.username",
			schemaAccepts: true},
		{name: "link without source", kind: al,
			raw: `{"a":{"platform":"network","username":"x"},"b":{"platform":"codehost","username":"y"},` +
				`"observed_at":"2026"}`, code: record.CodeMissingIdentity, path: "source"},
		{name: "link to itself", kind: al,
			raw: `{"a":{"platform":"network","username":"X"},"b":{"platform":"network","username":"x"},"source":"s",` +
				`"observed_at":"2026"}`, code: record.CodeBadIdentity, path: "b", schemaAccepts: true},
		{name: "link with too much confidence", kind: al, raw: with(oka, `"confidence":1.5`),
			code: record.CodeOutOfRange, path: "confidence"},
		{name: "list of an unknown kind", kind: cl, raw: `{"user_id":1,"list":"stars","last_updated":"2026"}`,
			code: record.CodeBadIdentity, path: "list"},
	}
}

func TestDecode_RejectsInvalid(t *testing.T) {
	codes := map[string]bool{}
	for _, c := range defects() {
		t.Run(c.name, func(t *testing.T) {
			_, err := record.Decode(c.kind, []byte(c.raw))
			require.Error(t, err)
			bad, ok := record.AsValidationError(err)
			require.True(t, ok, "%T", err)
			require.Equal(t, c.code, bad.Code, err)
			require.Equal(t, c.path, bad.Path, err)
			require.Equal(t, c.kind, bad.Kind)
			require.NotEmpty(t, bad.Reason)
			require.Less(t, len(bad.Reason), 200)
			codes[bad.Code] = true
		})
	}
	for _, code := range []string{
		record.CodeUnknownKind, record.CodeTooLarge, record.CodeTooDeep, record.CodeSyntax, record.CodeDuplicateKey,
		record.CodeBadUTF8, record.CodeNULByte, record.CodeWrongType, record.CodeOutOfRange, record.CodeMissingIdentity,
		record.CodeMissingVersion, record.CodeMissingField, record.CodeBadIdentity, record.CodeBadDate,
		record.CodeBadValue,
	} {
		require.True(t, codes[code], "no case for %s", code)
	}
}
