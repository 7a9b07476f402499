package bulk_test

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"muster/query-api/internal/bulk"
	"muster/schemas/event"
)

func read(t testing.TB, text string, format bulk.Format, o event.BulkOperation) ([]bulk.Row, error) {
	t.Helper()
	var rows []bulk.Row
	n, err := bulk.ReadRows(strings.NewReader(text), format, o, func(r bulk.Row) error {
		rows = append(rows, r)
		return nil
	})
	require.True(t, err != nil || n == len(rows))
	return rows, err
}

func TestReadRows_BodiesHaveTheirReference(t *testing.T) {
	for name, c := range map[string]struct {
		format    bulk.Format
		operation event.BulkOperation
		text      string
		want      []string // bodies
	}{
		"ndjson": {bulk.NDJSON, event.BulkPersonEnrich, "{\"email\":\"a\"}\n{}\r\n\n { } \n{\"reference\":\"\",\"x\":[1]}",
			[]string{`{"reference":"1","email":"a"}`, `{"reference":"2"}`, `{"reference":"3"}`, `{"reference":"","x":[1]}`}},
		"a mark and an escaped reference": {bulk.NDJSON, event.BulkDiscover, "\ufeff{\"ref\\u0065rence\":\"\\u00e9\"}",
			[]string{`{"reference":"é"}`}},
		"csv": {bulk.CSV, event.BulkPersonEnrich, "reference,codehost,websets\na,b,codehost;network\n,\"x\"\"y\nz\",\n",
			[]string{`{"reference":"a","codehost":"b","websets":["codehost","network"]}`,
				`{"reference":"2","codehost":"x\"y\nz"}`}},
		"numbers": {bulk.CSV, event.BulkDiscover, "url,max_age_days\nu,7\nu,x\n",
			[]string{`{"reference":"1","url":"u","max_age_days":7}`, `{"reference":"2","url":"u","max_age_days":"x"}`}},
		"one column": {bulk.CSV, event.BulkCompanyEnrich, "company_id\n\"\"\nc\n",
			[]string{`{"reference":"1"}`, `{"reference":"2","company_id":"c"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			rows, err := read(t, c.text, c.format, c.operation)
			require.NoError(t, err)
			require.Len(t, rows, len(c.want))
			for i, want := range c.want {
				require.Empty(t, rows[i].Detail)
				require.JSONEq(t, want, string(rows[i].Body))
			}
		})
	}
}

func TestReadRows_AcceptsExactlyTheLimits(t *testing.T) {
	row := func(n int) string { return `{"a":"` + strings.Repeat("x", n-len(`{"a":""}`)) + `"}` }
	rows, err := read(t, row(event.MaxBulkRow)+"\n"+row(event.MaxBulkRow)+"\r\n", bulk.NDJSON, event.BulkDiscover)
	require.NoError(t, err)
	require.Len(t, rows, 2)
	var input *bulk.InputError
	_, err = read(t, row(10)+"\n"+row(event.MaxBulkRow+1), bulk.NDJSON, event.BulkDiscover)
	require.ErrorAs(t, err, &input)
	require.Contains(t, input.Detail, "line 2")
	_, err = read(t, row(event.MaxBulkRow*3), bulk.NDJSON, event.BulkDiscover)
	require.ErrorAs(t, err, &input)
	_, err = read(t, strings.Repeat("{}\n", event.MaxBulkRows), bulk.NDJSON, event.BulkDiscover)
	require.NoError(t, err)
	_, err = read(t, strings.Repeat("{}\n", event.MaxBulkRows+1), bulk.NDJSON, event.BulkDiscover)
	require.ErrorAs(t, err, &input)
	_, err = read(t, "url\n"+strings.Repeat("x\n", event.MaxBulkRows), bulk.CSV, event.BulkDiscover)
	require.NoError(t, err)
	_, err = read(t, "url\n"+strings.Repeat("x", event.MaxBulkRow-1)+"\ny\n", bulk.CSV, event.BulkDiscover)
	require.NoError(t, err)
	_, err = read(t, "url\n"+strings.Repeat("x", event.MaxBulkRow+1)+"\ny\n", bulk.CSV, event.BulkDiscover)
	require.ErrorAs(t, err, &input)
	require.Contains(t, input.Detail, "line 2")
	long := strings.Repeat("r", 257)
	rows, err = read(t, `{"reference":"`+long+`"}`, bulk.NDJSON, event.BulkDiscover)
	require.NoError(t, err)
	require.Contains(t, rows[0].Detail, "256 bytes")
}

func TestReadRows_ReturnsTheErrorOfTheHandler(t *testing.T) {
	broken := errors.New("broken")
	for format, text := range map[bulk.Format]string{bulk.NDJSON: "{}\n{}", bulk.CSV: "url\na\nb"} {
		n := 0
		_, err := bulk.ReadRows(strings.NewReader(text), format, event.BulkDiscover, func(bulk.Row) error {
			n++
			return broken
		})
		require.ErrorIs(t, err, broken)
		require.Equal(t, 1, n)
	}
}

// A row is either readable with its reference or has a reason, and NDJSON keeps all members.
func FuzzReadRows(f *testing.F) {
	for _, text := range []string{
		"{}", `{"reference":"a","email":"b"}`, "\ufeff{}\n[]\nnull\n\"", "reference,email\na,b\n",
		"email\n\"a\"\"b\"\n", "codehost\r\n=1\r\n", `{"a":{"b":[1,2.5e3]}}`, "{\"a\":1,\"a\":2}", "email,email\n", "\"",
		"email\n\"",
	} {
		f.Add(text, true)
		f.Add(text, false)
	}
	f.Fuzz(func(t *testing.T, text string, asCSV bool) {
		format := bulk.NDJSON
		if asCSV {
			format = bulk.CSV
		}
		rows, err := read(t, text, format, event.BulkPersonEnrich)
		if err != nil {
			require.ErrorAs(t, err, new(*bulk.InputError))
			return
		}
		for _, r := range rows {
			if r.Detail != "" {
				require.Empty(t, r.Body)
				continue
			}
			require.True(t, r.Body.IsValid(), "%q", r.Body)
			var body struct {
				Reference string `json:"reference"`
			}
			require.NoError(t, json.Unmarshal(r.Body, &body))
			require.Equal(t, r.Reference, body.Reference)
		}
	})
}

func TestResultWriter_CellsAreTextsOfTheirValues(t *testing.T) {
	var out bytes.Buffer
	fields := []string{
		"network.n", "network.list", "network.mixed", "network.jobs.title", "network.o", "network.no.no", "codehost",
	}
	w := bulk.NewResultWriter(&out, event.BulkPersonEnrich, fields)
	require.NoError(t, w.Begin())
	for _, body := range []string{
		`{"reference":"1","person":{"network":{"n":12345678901234567890,"list":["a","b;c"],"mixed":[1,{"x":"y"}],` +
			`"o":{"k":null},"jobs":[{"title":"A"},{},{"title":"B"}]},"codehost":null}}`,
		`{"reference":"=1+1","detail":"@x","person":{"network":{"n":-5,"list":["-a","b"],"mixed":true,` +
			`"o":"\tx","jobs":[{"title":1},{"title":"x"}]}}}`,
		`{"reference":"＝1","person":{},"miss_reason":"not_found"}`,
	} {
		require.NoError(t, w.Write([]byte(body)))
	}
	require.NoError(t, w.Flush())
	records, err := csv.NewReader(&out).ReadAll()
	require.NoError(t, err)
	require.Equal(t, [][]string{
		append([]string{"reference", "detail", "miss_reason"}, fields...),
		{"1", "", "", "12345678901234567890", "a;b;c", `[1,{"x":"y"}]`, "A;B", `{"k":null}`, "", ""},
		{"'=1+1", "'@x", "", "-5", "'-a;b", "true", `[1,"x"]`, "'\tx", "", ""},
		{"'＝1", "", "not_found", "", "", "", "", "", "", ""},
	}, records)
}

// No cell of a text begins like a formula, and the text is in it unchanged.
func FuzzResultWriter(f *testing.F) {
	for _, text := range []string{"", "=1", "+", "-x", "@", "\t", "\r\n", "a,b\"c", "é", "\x00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		quoted, err := jsontext.AppendQuote(nil, text)
		if err != nil {
			return // not UTF-8
		}
		var out bytes.Buffer
		w := bulk.NewResultWriter(&out, event.BulkCompanyEnrich, []string{"name"})
		require.NoError(t, w.Begin())
		require.NoError(t, w.Write(fmt.Appendf(nil, `{"reference":"r","company":{"name":%s}}`, quoted)))
		require.NoError(t, w.Flush())
		records, err := csv.NewReader(&out).ReadAll()
		require.NoError(t, err)
		cell := records[1][3]
		require.False(t, strings.HasPrefix(cell, "=") || strings.HasPrefix(cell, "+") || strings.HasPrefix(cell, "-") ||
			strings.HasPrefix(cell, "@"), "%q", cell)
		// encoding/csv reads \r\n as \n.
		plain := strings.ReplaceAll(text, "\r\n", "\n")
		require.Contains(t, []string{plain, "'" + plain}, strings.ReplaceAll(cell, "\r\n", "\n"))
	})
}
