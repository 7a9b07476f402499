package mapping_test

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"muster/ingest/internal/convert"
	"muster/ingest/internal/mapping"
	"muster/schemas/record"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var received = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// Each mapping has a file of source objects, and a golden file with the records or errors of each.
func TestBuiltInMappings_MatchGoldenFiles(t *testing.T) {
	all := mapping.All()
	require.Len(t, all, 3)
	for _, shipped := range all {
		t.Run(shipped.Name, func(t *testing.T) {
			require.NotEmpty(t, shipped.About())
			program, err := mapping.Load(shipped.Name)
			require.NoError(t, err)
			in, err := os.ReadFile(filepath.Join("testdata", shipped.Name+".ndjson"))
			require.NoError(t, err)
			var out bytes.Buffer
			kinds := map[record.Kind]int{}
			for i, line := range bytes.Split(bytes.TrimSpace(in), []byte("\n")) {
				records, err := program.Map(t.Context(),
					convert.Object{Raw: line, File: "f", Number: int64(i + 1), Received: received})
				out.WriteString("object " + string(rune('a'+i)) + "\n")
				if err != nil {
					bad, ok := record.AsValidationError(err)
					require.True(t, ok)
					require.Equal(t, convert.SourceObject, bad.Kind)
					out.WriteString("  rejected: " + bad.Error() + "\n")
				}
				for _, m := range records {
					kinds[m.Kind]++
					_, err := record.Decode(m.Kind, m.JSON)
					text := jsontext.Value(m.JSON)
					require.NoError(t, text.Canonicalize())
					out.WriteString("  " + string(m.Kind) + " " + string(text) + "\n")
					if err != nil {
						out.WriteString("    rejected: " + err.Error() + "\n")
					}
				}
			}
			path := filepath.Join("testdata", shipped.Name+".golden")
			if *update {
				require.NoError(t, os.WriteFile(path, out.Bytes(), 0o644))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(want), out.String())
			require.GreaterOrEqual(t, len(kinds), 2)
		})
	}
}

func compile(t *testing.T, source string, limits mapping.Limits) *mapping.Program {
	t.Helper()
	p, err := mapping.Compile("test.jq", source, limits)
	require.NoError(t, err)
	return p
}

func TestMap_FailureConcernsOneObject(t *testing.T) {
	limits := mapping.Limits{Deadline: time.Minute, Records: 10, Bytes: 1000}
	quick := limits
	quick.Deadline = 100 * time.Millisecond
	for name, c := range map[string]struct{ program, object, code, reason string }{
		"error": {`error("no good")`, `{}`, record.CodeMapping, "is not mapped: test.jq failed: error: " +
			"no good"},
		"type error": {`.a.b`, `{"a":7}`, record.CodeMapping, "expected an object"},
		"endless":    {`def f: f; f`, `{}`, record.CodeMapping, "timed out after 100ms"},
		"endless output": {`repeat({kind: "network-person", record: {}})`, `{}`, record.CodeMapping, "returned " +
			"more than 10 records"},
		"too many bytes": {`{kind: "network-person", record: {a: ("x" * 2000)}}`, `{}`, record.CodeMapping,
			"returned more than 1000 bytes"},
		"not an object": {`"x"`, `{}`, record.CodeMapping, "returned string, {kind, record} is required"},
		"missing kind":  {`{record: {}}`, `{}`, record.CodeMapping, `of unknown kind ""; kinds: network-person`},
		"erasure":       {`{kind: "erasure", record: {}}`, `{}`, record.CodeMapping, "returned an erasure"},
		"internal kind": {`{kind: "codehost-list", record: {}}`, `{}`, record.CodeMapping, `of unknown kind ` +
			`"codehost-list"`},
		"missing record": {`{kind: "network-person"}`, `{}`, record.CodeMapping,
			"returned a record that is null"},
		"extra field": {`{kind: "network-person", record: {}, x: 1}`, `{}`, record.CodeMapping,
			`the field "x"`},
		"halt_error": {`halt_error`, `{}`, record.CodeMapping, "is not mapped"},
		"error after an output": {`{kind: "network-person", record: {}}, error("late")`, `{}`, record.CodeMapping,
			"late"},
		"truncated":     {`.`, `{"a":`, record.CodeSyntax, "ends too early"},
		"duplicate key": {`.`, `{"a":1,"a":2}`, record.CodeDuplicateKey, "occurs twice"},
		"two values":    {`.`, `{} {}`, record.CodeSyntax, "second value"},
		"bad UTF-8":     {`.`, "\"\xff\"", record.CodeBadUTF8, "UTF-8"},
		"deep": {`.`, strings.Repeat("[", 600) + strings.Repeat("]", 600), record.CodeTooDeep,
			"deeper than 500"},
	} {
		t.Run(name, func(t *testing.T) {
			limits := limits
			if name == "endless" {
				limits = quick
			}
			records, err := compile(t, c.program, limits).Map(t.Context(), convert.Object{Raw: []byte(c.object)})
			require.Empty(t, records)
			bad, ok := record.AsValidationError(err)
			require.True(t, ok, "%v", err)
			require.Equal(t, c.code, bad.Code)
			require.Contains(t, bad.Reason, c.reason)
		})
	}
}

// Reasons are listed without access to the record: they contain operations, types and fields.
func TestMap_ReasonsContainNoValues(t *testing.T) {
	const object = `{"mail":"ada@mail.example","phone":15550100,"name":"Ada","at":{"ada@mail.example":1}}`
	for program, reason := range map[string]string{
		`.mail + 1`:                         "failed: cannot add: string",
		`.phone / 0`:                        "failed: cannot divide number",
		`.mail | .x`:                        "failed: expected an object but got: string",
		`.at | .[0]`:                        "failed: expected an array but got: object",
		`.mail | tonumber`:                  "failed: tonumber cannot be applied to its input",
		`.mail | fromdateiso8601`:           "failed: strptime cannot be applied to its input",
		`.phone | split(",")`:               "failed: split cannot be applied to: number",
		`.name | test("(")`:                 "failed: invalid regular expression",
		`. as $r | .mail | format($r.mail)`: "failed: format not defined",
		`{(.phone): 1}`:                     "failed: expected a string for object key but got: number",
		`error`:                             "failed: error: object",
		`halt_error`:                        "failed: error: object",
		`error("no such person")`:           "failed: error: no such person",
		`try (.mail + 1) catch error`:       "failed: error: cannot add: string",
		`try (.mail | tonumber) catch error("bad: " + .)`: "failed: error: bad",
		`.at`:                       "returned an object with the field (not shown)",
		`{kind: .mail, record: {}}`: "returned a record of unknown kind (not shown)",
		`{kind: "network-person", record: {a: (1, .mail)}.a}`: "returned a record that is number",
	} {
		_, err := compile(t, program, mapping.Limits{}).Map(t.Context(), convert.Object{Raw: []byte(object)})
		bad, ok := record.AsValidationError(err)
		require.True(t, ok, program)
		require.Contains(t, bad.Reason, "is not mapped: test.jq "+reason, program)
		for _, value := range []string{"ada", "Ada", "555"} {
			require.NotContains(t, bad.Reason, value, program)
		}
	}
}

// A canceled run must not reject the object.
func TestMap_CanceledContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := compile(t, `def f: f; f`, mapping.Limits{}).Map(ctx, convert.Object{Raw: []byte(`{}`)})
	require.ErrorIs(t, err, context.Canceled)
}

func TestMap_KeepsExactNumbers(t *testing.T) {
	p := compile(t, `{kind: "network-person", record: {v: ., f: $file, l: $line, r: $received}}`, mapping.Limits{})
	for _, v := range []string{
		`null`, `true`, `false`, `""`, `"\u00e9\ud83d\ude00"`, `0`, `-7`, `9007199254740993`, `9223372036854775807`,
		`123456789012345678901234567890`, `1.5`, `[]`, `{}`, `[1,[2,{"a":[null]}]]`,
	} {
		records, err := p.Map(t.Context(), convert.Object{Raw: []byte(v), File: "a/b", Number: 3, Received: received})
		require.NoError(t, err)
		require.Len(t, records, 1)
		var got struct {
			V jsontext.Value `json:"v"`
			F string         `json:"f"`
			L int            `json:"l"`
			R string         `json:"r"`
		}
		require.NoError(t, json.Unmarshal(records[0].JSON, &got))
		require.JSONEq(t, v, string(got.V))
		if v[0] >= '0' && v[0] <= '9' {
			require.Equal(t, v, string(got.V), "exactly")
		}
		require.Equal(t, "a/b 3 2026-11-20T12:00:00Z",
			strings.Join([]string{got.F, string(rune('0' + got.L)), got.R}, " "))
	}
	records, err := compile(t, `empty`, mapping.Limits{}).Map(t.Context(), convert.Object{Raw: []byte(`{}`)})
	require.NoError(t, err)
	require.Empty(t, records)
}

func TestPrelude_EvidenceVersion(t *testing.T) {
	p := compile(t, `.[] | {kind: "network-person", record: {v: evidence_version}}`, mapping.Limits{})
	records, err := p.Map(
		t.Context(),
		convert.Object{
			Raw: []byte(
				`["2023-11-14T22:13:20Z","2023-11-14T22:13:21Z","1970-01-01T00:00:00Z","2020-01-01T00:00:00.123Z"]`,
			),
		},
	)
	require.NoError(t, err)
	var got []string
	for _, m := range records {
		var r struct {
			V string `json:"v"`
		}
		require.NoError(t, json.Unmarshal(m.JSON, &r))
		_, err := record.ParseVersion(r.V)
		require.NoError(t, err)
		got = append(got, r.V)
	}
	require.Equal(t, []string{
		"1970-01-01T00:28:20.000000Z"[:20] + "000000Z", "1970-01-01T00:28:20.000001Z",
		"1970-01-01T00:00:00.000000Z", "1970-01-01T00:26:17.836800Z",
	}, got)
}

func TestLoad_BuiltInOrFile(t *testing.T) {
	_, err := mapping.Load("codehost-event")
	require.ErrorContains(t, err, "no such file; built-in mappings: codehost-events, codehost-rest, schema-org")
	path := filepath.Join(t.TempDir(), "m.jq")
	require.NoError(t, os.WriteFile(path, []byte("# mine\n{kind: \"network-person\",\n  record: .}}\n"), 0o600))
	_, err = mapping.Load(path)
	require.ErrorContains(t, err, "m.jq: line 3: ")
	require.NoError(t, os.WriteFile(path, []byte("nothing_known"), 0o600))
	_, err = mapping.Load(path)
	require.ErrorContains(t, err, "nothing_known")
	require.NoError(t, os.WriteFile(path, []byte(`record("network-person"; {a: 1, b: null, c: [" "]})`), 0o600))
	p, err := mapping.Load(path)
	require.NoError(t, err)
	require.Equal(t, path, p.Name())
	records, err := p.Map(t.Context(), convert.Object{Raw: []byte(`1`)})
	require.NoError(t, err)
	require.Equal(t, `{"a":1}`, string(records[0].JSON))
	for _, source := range []string{`env`, `$ENV`} { // no access to the process environment
		t.Setenv("MUSTER_SECRET", "s3cret")
		p := compile(t, `{kind: "network-person", record: {e: (`+source+`)}}`, mapping.Limits{})
		records, err := p.Map(t.Context(), convert.Object{Raw: []byte(`1`)})
		require.NoError(t, err)
		require.Equal(t, `{"e":{}}`, string(records[0].JSON))
	}
	for _, source := range []string{`input`, `import "a" as a; .`, `include "a"; .`, `input_filename`} {
		_, err := mapping.Compile("x", source, mapping.Limits{})
		if err == nil {
			_, err = compile(t, source, mapping.Limits{}).Map(t.Context(), convert.Object{Raw: []byte(`1`)})
		}
		require.Error(t, err, source)
	}
}

func BenchmarkEvents(b *testing.B) {
	p, err := mapping.Load("codehost-events")
	require.NoError(b, err)
	in, err := os.ReadFile("testdata/codehost-events.ndjson")
	require.NoError(b, err)
	lines := bytes.Split(bytes.TrimSpace(in), []byte("\n"))
	for b.Loop() {
		for _, l := range lines {
			_, _ = p.Map(b.Context(), convert.Object{Raw: l})
		}
	}
	b.ReportMetric(float64(b.N*len(lines))/b.Elapsed().Seconds(), "objects/s")
}

// FuzzMap checks that no object makes the interpreter panic or hang.
func FuzzMap(f *testing.F) {
	all := mapping.All()
	programs := make([]*mapping.Program, len(all))
	for i, s := range all {
		var err error
		programs[i], err = mapping.Compile(s.Name, s.Source, mapping.Limits{})
		require.NoError(f, err)
		in, err := os.ReadFile(filepath.Join("testdata", s.Name+".ndjson"))
		require.NoError(f, err)
		for _, line := range bytes.Split(bytes.TrimSpace(in), []byte("\n")) {
			f.Add(line, uint8(i))
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte, name uint8) {
		records, err := programs[int(name)%len(programs)].Map(t.Context(), convert.Object{Raw: raw, Received: received})
		if err != nil {
			_, ok := record.AsValidationError(err)
			require.True(t, ok, "%v", err)
			require.Empty(t, records)
		}
	})
}
