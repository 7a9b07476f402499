package ingest_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/ingest"
	"muster/schemas/record"
)

// base is a valid record of a kind, in parts that a defect can replace.
type base struct {
	kind    record.Kind
	id      string // the identity fields
	idField string // where a missing identity is reported
	wrongID string // the identity fields, one of them with a wrong type
	wrongAt string
	version string // the version field
	rest    string // other required fields
	text    string // an optional string field
}

func bases() []base {
	return []base{
		{record.KindNetworkPerson, `"profile_id":"p1"`, "profile_id", `"profile_id":true`, "profile_id",
			"last_updated", `,"username":"u"`, "headline"},
		{record.KindNetworkCompany, `"company_id":"c1"`, "company_id", `"company_id":[1]`, "company_id",
			"last_updated", ``, "network_slug"},
		{record.KindCodehostPerson, `"user_id":1`, "user_id", `"user_id":"1"`, "user_id", "last_updated",
			`,"codehost_username":"u"`, "bio"},
		{record.KindCodehostRepo, `"user_id":1,"id":2`, "user_id", `"user_id":1,"id":2.5`, "id", "updated_at", ``,
			"description"},
		{record.KindCodehostCommit, `"user_id":1,"sha":"ab"`, "user_id", `"user_id":1,"sha":{}`, "sha", "author_date",
			``, "message"},
		{record.KindMicroblogPerson, `"user_id":"5"`, "user_id", `"user_id":5`, "user_id", "last_updated",
			`,"username":"u"`, "bio"},
		{record.KindAccountLink,
			`"a":{"platform":"codehost","username":"x"},"b":{"platform":"network","username":"y"},"source":"s"`,
			"a.platform", `"a":{"platform":"codehost","username":"x"},"b":"network:y","source":"s"`, "b",
			"observed_at", ``, "note"},
	}
}

// withFields returns the record with additional fields.
func (b base) withFields(fields string) string { return b.withVersion(`"2026-01-02"`, fields) }

func (b base) withVersion(version, fields string) string {
	if fields != "" {
		fields = "," + fields
	}
	return `{` + b.id + `,"` + b.version + `":` + version + b.rest + fields + `}`
}

// defect is a way for a record to be malformed or unusual.
type defect struct {
	name string
	make func(base) string
	code string            // "" for an unusual record that is accepted
	path func(base) string // where it is reported; nil if only the golden file checks it
}

func at(path string) func(base) string { return func(base) string { return path } }

func atText(b base) string    { return b.text }
func atVersion(b base) string { return b.version }
func atID(b base) string      { return b.idField }

// text replaces the value of a string field.
func text(value string) func(base) string {
	return func(b base) string { return b.withFields(`"` + b.text + `":` + value) }
}

func withMember(fields string) func(base) string {
	return func(b base) string { return b.withFields(fields) }
}

func version(value string) func(base) string {
	return func(b base) string { return b.withVersion(value, "") }
}

func whole(line string) func(base) string { return func(base) string { return line } }

// defects returns all defects. testdata/corpus.golden has the outcome of each, for each kind.
func defects() []defect {
	list := func(n int, item string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + "]"
	}
	fill := func(size int) func(base) string {
		return func(b base) string {
			bare := b.withFields(`"x":""`)
			return b.withFields(`"x":"` + strings.Repeat("x", size-len(bare)) + `"`)
		}
	}
	return []defect{
		{"truncated: last brace", func(b base) string { return strings.TrimSuffix(b.withFields(""), "}") },
			record.CodeSyntax, nil},
		{"truncated: in a string", func(b base) string { return `{` + b.id + `,"` + b.version + `":"2026-0` },
			record.CodeSyntax, atVersion},
		{"truncated: in a name", func(b base) string { return `{` + b.id + `,"las` }, record.CodeSyntax, nil},
		{"truncated: after a colon", func(b base) string { return `{` + b.id + `,"` + b.version + `":` },
			record.CodeSyntax, atVersion},
		{"truncated: after a comma", func(b base) string { return `{` + b.id + `,` }, record.CodeSyntax, nil},
		{"truncated: an open array", withMember(`"x":[1,2`), record.CodeSyntax, nil},
		{"text after the object", func(b base) string { return b.withFields("") + " x" }, record.CodeSyntax, at("")},
		{"trailing comma", func(b base) string { return strings.TrimSuffix(b.withFields(""), "}") + ",}" },
			record.CodeSyntax, nil},
		{"comma after the object", func(b base) string { return b.withFields("") + "," }, record.CodeSyntax, at("")},
		{"missing comma",
			func(b base) string { return strings.Replace(b.withFields(""), `,"`+b.version, ` "`+b.version, 1) },
			record.CodeSyntax, nil},
		{"missing colon", withMember(`"x" 1`), record.CodeSyntax, nil},
		{"comment", withMember(`/* why */ "x":1`), record.CodeSyntax, nil},
		{"single quotes", withMember(`'x':'y'`), record.CodeSyntax, nil},
		{"name without quotes", withMember(`x:1`), record.CodeSyntax, nil},
		{"number as a name", withMember(`1:1`), record.CodeSyntax, nil},
		{"NaN", withMember(`"x":NaN`), record.CodeSyntax, at("x")},
		{"Infinity", withMember(`"x":-Infinity`), record.CodeSyntax, at("x")},
		{"undefined", withMember(`"x":undefined`), record.CodeSyntax, at("x")},
		{"None of Python", withMember(`"x":None`), record.CodeSyntax, at("x")},
		{"leading zero", withMember(`"x":007`), record.CodeSyntax, nil},
		{"plus sign", withMember(`"x":+1`), record.CodeSyntax, at("x")},
		{"hexadecimal number", withMember(`"x":0x1F`), record.CodeSyntax, nil},
		{"number that ends in a dot", withMember(`"x":1.`), record.CodeSyntax, nil},
		{"invalid escape", text(`"\x41"`), record.CodeSyntax, atText},
		{"short unicode escape", text(`"\u12"`), record.CodeSyntax, atText},
		{"raw tab in a string", text("\"a\tb\""), record.CodeSyntax, atText},
		{"raw escape character", text("\"\x1b[0m\""), record.CodeSyntax, atText},
		{"HTML instead of a record", whole("<!doctype html><title>429 Too Many Requests</title>"), record.CodeSyntax,
			at("")},
		{"CSV instead of a record", whole(`p1,2026-01-02,u`), record.CodeSyntax, at("")},
		{"byte order mark inside the file", func(b base) string { return "\ufeff" + b.withFields("") },
			record.CodeSyntax, at("")},
		{"unpaired surrogate", text(`"\ud83d!"`), record.CodeBadUTF8, atText},
		{"bytes that never occur in UTF-8", text("\"\xff\xfe\""), record.CodeBadUTF8, atText},
		{"Latin-1", text("\"caf\xe9\""), record.CodeBadUTF8, atText},
		{"overlong UTF-8", text("\"\xc0\xaf\""), record.CodeBadUTF8, atText},
		{"surrogates in UTF-8", text("\"\xed\xa0\x80\""), record.CodeBadUTF8, atText},
		{"UTF-8 truncated in a character", text("\"\xf0\x9f\x98\""), record.CodeBadUTF8, atText},
		{"bad UTF-8 in an unknown field", withMember("\"x\":{\"y\":[\"\xff\"]}"), record.CodeBadUTF8, at("x.y[0]")},
		{"raw NUL", text("\"a\x00\""), record.CodeNULByte, atText},
		{"escaped NUL", text(`"a\u0000"`), record.CodeNULByte, atText},
		{"escaped NUL in an unknown array", withMember(`"x":[1,["\u0000"]]`), record.CodeNULByte, at("x[1][0]")},
		{"duplicate field", func(b base) string { return b.withFields(`"` + b.text + `":"a","` + b.text + `":"b"`) },
			record.CodeDuplicateKey, atText},
		{"duplicate version", func(b base) string { return b.withFields(`"` + b.version + `":"2027"`) },
			record.CodeDuplicateKey, atVersion},
		{"duplicate by an escape", withMember(`"xy":1,"x\u0079":2`), record.CodeDuplicateKey, at("xy")},
		{"nested duplicate", withMember(`"x":[{"y":1,"y":1}]`), record.CodeDuplicateKey, at("x[0].y")},
		{"65 levels of arrays", withMember(`"x":` + strings.Repeat("[", 64) + strings.Repeat("]", 64)),
			record.CodeTooDeep,
			nil},
		{"10,000 levels of objects",
			withMember(`"x":` + strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000)),
			record.CodeTooDeep,
			nil},
		{"50,000 open arrays", withMember(`"x":` + strings.Repeat("[", 50_000)), record.CodeTooDeep, nil},
		{"string instead of an object", whole(`"p1"`), record.CodeWrongType, at("")},
		{"number instead of an object", whole(`42`), record.CodeWrongType, at("")},
		{"true instead of an object", whole(`true`), record.CodeWrongType, at("")},
		{"null instead of an object", whole(`null`), record.CodeWrongType, at("")},
		{"empty object", whole(`{}`), record.CodeMissingIdentity, atID},
		{"no identity", func(b base) string { return `{"` + b.version + `":"2026"` + b.rest + `}` },
			record.CodeMissingIdentity, atID},
		{"identity with a wrong type",
			func(b base) string { return `{` + b.wrongID + `,"` + b.version + `":"2026"` + b.rest + `}` },
			record.CodeWrongType, func(b base) string { return b.wrongAt }},
		{"no version", func(b base) string { return `{` + b.id + b.rest + `}` }, record.CodeMissingVersion, atVersion},
		{"null version", version(`null`), record.CodeMissingVersion, atVersion},
		{"empty version", version(`""`), record.CodeMissingVersion, atVersion},
		{"unix time as version", version(`1767312000`), record.CodeWrongType, atVersion},
		{"array as version", version(`["2026"]`), record.CodeWrongType, atVersion},
		{"word as version", version(`"yesterday"`), record.CodeBadDate, atVersion},
		{"month 13", version(`"2026-13"`), record.CodeBadDate, atVersion},
		{"month 0", version(`"2026-00-01"`), record.CodeBadDate, atVersion},
		{"29 February in a non-leap year", version(`"2026-02-29"`), record.CodeBadDate, atVersion},
		{"hour 24", version(`"2026-01-02T24:00:00Z"`), record.CodeBadDate, atVersion},
		{"second 61", version(`"2026-01-02T00:00:61Z"`), record.CodeBadDate, atVersion},
		{"year 0", version(`"0000"`), record.CodeBadDate, atVersion},
		{"year 10000", version(`"10000-01-01"`), record.CodeBadDate, atVersion},
		{"year 1 with an offset to year 0", version(`"0001-01-01T00:00:00+01:00"`), record.CodeBadDate, atVersion},
		{"two-digit year", version(`"26-01-02"`), record.CodeBadDate, atVersion},
		{"slashes in a date", version(`"01/02/2026"`), record.CodeBadDate, atVersion},
		{"string for deleted", withMember(`"deleted":"true"`), record.CodeWrongType, at("deleted")},
		{"number for deleted", withMember(`"deleted":1`), record.CodeWrongType, at("deleted")},
		{"deletion without version", func(b base) string { return `{` + b.id + `,"deleted":true}` },
			record.CodeMissingVersion, atVersion},
		{"deletion without identity", func(b base) string { return `{"` + b.version + `":"2026","deleted":true}` },
			record.CodeMissingIdentity, atID},
		{"one byte over 1 MiB", fill(1<<20 + 1), record.CodeTooLarge, at("")},
		{"3 MiB without an end", whole(`{"x":"` + strings.Repeat("y", 3<<20)), record.CodeTooLarge, at("")},

		{"plain", withMember(""), "", nil},
		{"unknown fields", withMember(`"x":{"y":[1,"2",null,true]},"":"","ä.b[0]":0`), "", nil},
		{"emoji and right-to-left text", text(`"👩‍👩‍👧‍👦 🏳️‍🌈 שלום مرحبا"`), "", nil},
		{"direction marks and combining characters", text("\"\u202eabc\u202c e\u0301\u200b\""), "", nil},
		{"escaped surrogate pairs", text(`"\ud83d\ude00\u00e9\/\b\f\n\r\t\"\\"`), "", nil},
		{"white space everywhere", func(b base) string {
			return " \t" + strings.NewReplacer(`":`, `" : `, `,"`, ` , "`, `{`, `{ `).
				Replace(b.withFields(`"x":[ 1 ,2 ]`)) +
				" \t "
		}, "", nil},
		{"carriage return at the end", func(b base) string { return b.withFields("") + "\r" }, "", nil},
		{"null field", text(`null`), "", nil},
		{"empty field", text(`""`), "", nil},
		{"year 1", version(`"0001"`), "", nil},
		{"last moment of 9999", version(`"9999-12-31T23:59:59.999999Z"`), "", nil},
		{"year", version(`"1999"`), "", nil},
		{"month", version(`"1999-02"`), "", nil},
		{"leap day", version(`"2024-02-29"`), "", nil},
		{"time with an offset", version(`"2026-01-02T03:04:05+05:45"`), "", nil},
		{"time without an offset", version(`"2026-01-02T03:04:05"`), "", nil},
		{"space instead of T", version(`"2026-01-02 03:04:05"`), "", nil},
		{"decimal comma in a time", version(`"2026-01-02T03:04:05,5Z"`), "", nil},
		{"nanoseconds", version(`"2026-01-02T03:04:05.123456789Z"`), "", nil},
		{"10,000 entries", withMember(`"x":` + list(10_000, `{"k":"v"}`)), "", nil},
		{"10,000 fields", func(b base) string {
			var s strings.Builder
			for i := range 10_000 {
				fmt.Fprintf(&s, `,"f%d":%d`, i, i)
			}
			return b.withFields(s.String()[1:])
		}, "", nil},
		{"64 levels", withMember(`"x":` + strings.Repeat("[", 62) + `1` + strings.Repeat("]", 62)), "", nil},
		{"number of 300 digits", withMember(`"x":1` + strings.Repeat("0", 300)), "", nil},
		{"exponent out of range", withMember(`"x":1e99999`), "", nil},
		{"900 KiB", fill(900 << 10), "", nil},
		{"1 MiB", fill(1 << 20), "", nil},
		{"deletion", func(b base) string { return `{"deleted":true,` + b.id + `,"` + b.version + `":"2026"}` }, "",
			nil},
		{"names that differ in case", withMember(`"X":1,"x":2`), "", nil},
	}
}

// Each record is decoded alone and ingested.
func TestCorpus_EveryDefectIsReportedAtItsPath(t *testing.T) {
	var table strings.Builder
	records, names := 0, map[string]bool{}
	cfg := config(t)
	for _, b := range bases() {
		var file bytes.Buffer
		offsets := make([]int64, 0, len(defects()))
		rejected := map[int64]defect{}
		for i, d := range defects() {
			raw := d.make(b)
			require.NotContains(t, raw, "\n")
			records++
			if d.code != "" {
				names[d.name] = true
				rejected[int64(i+1)] = d
			}
			offsets = append(offsets, int64(file.Len()))
			file.WriteString(raw + "\n")

			_, err := record.Decode(b.kind, []byte(strings.TrimSuffix(raw, "\r")))
			if d.code == "" {
				require.NoError(t, err, "%s: %s", b.kind, d.name)
				fmt.Fprintf(&table, "%s\t%s\taccepted\n", b.kind, d.name)
				continue
			}
			bad, ok := record.AsValidationError(err)
			require.True(t, ok, "%s: %s", b.kind, d.name)
			require.Equal(t, d.code, bad.Code, "%s: %s: %v", b.kind, d.name, err)
			if d.path != nil {
				require.Equal(t, d.path(b), bad.Path, "%s: %s: %v", b.kind, d.name, err)
			}
			fmt.Fprintf(&table, "%s\t%s\t%s\t%s\t%s\n", b.kind, d.name, bad.Code, bad.Path, bad.Reason)
		}

		path := filepath.Join(t.TempDir(), "corpus.ndjson")
		require.NoError(t, os.WriteFile(path, file.Bytes(), 0o600))
		s, err := ingest.Files(t.Context(), cfg, ingest.Deps{}, b.kind, []string{path})
		requireExit(t, ingest.ExitRejected, err)
		require.True(t, s.Reconciles())
		all := int64(len(offsets))
		require.Equal(t,
			ingest.Counts{Read: all, Published: all - int64(len(rejected)), Rejected: int64(len(rejected))},
			counts(s, b.kind))
		found := 0
		for _, l := range rejectedRecords(t, cfg.Bus) {
			if l.Source.File != path {
				continue // for another kind
			}
			found++
			d, ok := rejected[l.Source.Line]
			require.True(t, ok, "%s: line %d is rejected: %s", b.kind, l.Source.Line, l.Reason)
			require.Equal(t, d.code, l.Code, "%s: %s: %s", b.kind, d.name, l.Reason)
			require.Equal(t, b.kind, l.Kind)
			require.Equal(t, offsets[l.Source.Line-1], l.Source.Offset)
			require.NotEmpty(t, l.Reason)
			if d.path != nil {
				require.Equal(t, d.path(b), l.Path, "%s: %s", b.kind, d.name)
			}
			raw := d.make(b)
			require.Equal(t, int64(len(raw)), l.Length)
			require.Equal(t, raw[:min(len(raw), rawLimit(raw))], string(l.Raw))
		}
		require.Equal(t, len(rejected), found)
	}
	require.GreaterOrEqual(t, records, 500)
	require.GreaterOrEqual(t, len(names), 60)
	t.Logf("%d records, %d defects, %d unusual forms", records, len(names), len(defects())-len(names))
	golden(t, "corpus.golden", table.String())
}
