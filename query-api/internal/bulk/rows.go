package bulk

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/platform/suggest"
	"muster/query-api/internal/api"
	"muster/schemas/event"
)

// Row is a row of an upload.
type Row struct {
	// Reference is the caller's, or the number of the row.
	Reference string `json:"reference"`
	// Body is the row as a JSON object with its reference.
	Body jsontext.Value `json:"body,omitzero"`
	// Detail is why the row cannot be read, instead of Body.
	Detail string `json:"detail,omitempty"`
}

// InputError is an upload that is rejected as a whole. Its text is addressed to the caller.
type InputError struct{ Detail string }

func (e *InputError) Error() string { return e.Detail }

func inputErrorf(format string, args ...any) error { return &InputError{fmt.Sprintf(format, args...)} }

// Format is the format of an upload.
type Format int

// Formats.
const (
	NDJSON Format = iota
	CSV
)

// maxReference is the maximum length of a reference in bytes, as of an item of the enrichment endpoints.
const maxReference = 256

// referenceColumn is the member or column with the caller's reference.
const referenceColumn = "reference"

// columns maps the CSV columns of an operation, the fields of a row, to the kind of their values.
func columns(operation event.BulkOperation) map[string]reflect.Kind {
	var row reflect.Type
	switch operation {
	case event.BulkPersonEnrich:
		row = reflect.TypeFor[api.PersonEnrichItem]()
	case event.BulkCompanyEnrich:
		row = reflect.TypeFor[api.CompanyEnrichItem]()
	case event.BulkDiscover:
		row = reflect.TypeFor[api.PersonDiscoverRequest]()
	default:
		return nil
	}
	out := make(map[string]reflect.Kind)
	for f := range row.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch name {
		case "dry_run", "max_credits", "fields": // of the job
		default:
			out[name] = f.Type.Elem().Kind()
		}
	}
	out[referenceColumn] = reflect.String
	return out
}

// ReadRows calls handle with each row of an upload, in order, and returns their number. It returns an [*InputError] if
// the upload as a whole is invalid: a limit is exceeded, or its rows cannot be told apart. A single invalid row is
// passed with its Detail.
func ReadRows(from io.Reader, format Format, operation event.BulkOperation, handle func(Row) error) (int, error) {
	read := readNDJSON
	if format == CSV {
		read = readCSV
	}
	n := 0
	err := read(from, operation, func(r Row) error {
		if n++; n > event.MaxBulkRows {
			return inputErrorf("the upload has more than %d rows: split it into several jobs", event.MaxBulkRows)
		}
		return handle(r)
	})
	if err == nil && n == 0 {
		err = inputErrorf("the upload has no rows: send one JSON object a line, or CSV with a header")
	}
	return n, err
}

func rowTooLarge(line int) error {
	return inputErrorf("line %d: the row is larger than %d bytes: send only the fields that identify it", line,
		event.MaxBulkRow)
}

// readNDJSON reads JSON values, one a line. Empty lines are skipped.
func readNDJSON(from io.Reader, _ event.BulkOperation, handle func(Row) error) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, 64<<10), event.MaxBulkRow+2)
	line, row := 0, 0
	for lines.Scan() {
		line++
		text := bytes.TrimSpace(lines.Bytes())
		if line == 1 {
			text = bytes.TrimPrefix(text, []byte("\ufeff"))
		}
		if len(text) > event.MaxBulkRow {
			return rowTooLarge(line)
		}
		if len(text) == 0 {
			continue
		}
		row++
		if err := handle(parseRow(row, text)); err != nil {
			return err
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return rowTooLarge(line + 1)
	case err != nil:
		return fmt.Errorf("read upload: %w", err)
	}
	return nil
}

// parseRow reads the reference of a JSON row. Everything else is checked when the row is answered.
func parseRow(number int, text []byte) Row {
	r := Row{Reference: strconv.Itoa(number)}
	if !utf8.Valid(text) {
		r.Detail = "the row is not valid UTF-8: encode it as UTF-8"
		return r
	}
	value := jsontext.Value(bytes.Clone(text))
	if !value.IsValid() {
		r.Detail = "the row is not a valid JSON object: send one object a line, without repeated fields"
		return r
	}
	if value.Kind() != '{' {
		r.Detail = "the row is not a JSON object: send one object a line"
		return r
	}
	var given struct {
		Reference jsontext.Value `json:"reference"`
	}
	if err := json.Unmarshal(value, &given); err != nil {
		r.Detail = "the row is not a valid JSON object: send one object a line, without repeated fields"
		return r
	}
	switch given.Reference.Kind() {
	case '"':
		var reference string
		if err := json.Unmarshal(given.Reference, &reference); err != nil || len(reference) > maxReference {
			r.Detail = fmt.Sprintf("reference is longer than %d bytes", maxReference)
			return r
		}
		r.Reference, r.Body = reference, value
	case 0:
		r.Body = withReference(value, r.Reference)
	default:
		r.Detail = "reference must be a string"
	}
	return r
}

// withReference adds a reference, a number, to a JSON object that has none.
func withReference(object jsontext.Value, reference string) jsontext.Value {
	rest := bytes.TrimSpace(object[1:])
	b := append([]byte(`{"reference":"`), reference...)
	b = append(b, '"')
	if rest[0] != '}' {
		b = append(b, ',')
	}
	return append(b, rest...)
}

// budgetReader fails once a record takes more than a row may have, so that an unterminated quote does not collect the
// rest of the upload in memory.
type budgetReader struct {
	from io.Reader
	read int64
	most int64
}

var errBudget = errors.New("row too large")

func (b *budgetReader) Read(p []byte) (int, error) {
	if b.read > b.most {
		return 0, errBudget
	}
	n, err := b.from.Read(p)
	b.read += int64(n)
	return n, err
}

// readCSV reads CSV (RFC 4180) with a header that names the columns.
func readCSV(from io.Reader, operation event.BulkOperation, handle func(Row) error) error {
	budget := &budgetReader{from: from}
	buffered := bufio.NewReaderSize(budget, 4096)
	allow := func(offset int64) { budget.most = offset + event.MaxBulkRow + 2*int64(buffered.Size()) }
	allow(0)
	skipped := int64(0)
	if mark, err := buffered.Peek(3); err == nil && string(mark) == "\ufeff" {
		n, _ := buffered.Discard(len(mark))
		skipped = int64(n)
	}
	r := csv.NewReader(buffered)
	r.FieldsPerRecord, r.ReuseRecord = -1, true
	header, err := r.Read()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return csvError(err, 1)
	}
	names := slices.Clone(header)
	if err := checkHeader(operation, names); err != nil {
		return err
	}
	types := columns(operation)
	for row := 1; ; row++ {
		start := r.InputOffset()
		allow(skipped + start)
		cells, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		line, _ := 0, 0
		if err == nil {
			line, _ = r.FieldPos(0)
		}
		switch {
		case err != nil:
			return csvError(err, row+1)
		case r.InputOffset()-start > event.MaxBulkRow:
			return rowTooLarge(line)
		}
		if err := handle(csvRow(row, names, types, cells)); err != nil {
			return err
		}
	}
}

func csvError(err error, line int) error {
	var syntax *csv.ParseError
	switch {
	case errors.Is(err, errBudget):
		return rowTooLarge(line)
	case errors.As(err, &syntax):
		return inputErrorf("line %d: the CSV is malformed (%v): quote cells that have quotes or line breaks, and double "+
			"the quotes in them", syntax.Line, syntax.Err)
	}
	return fmt.Errorf("read upload: %w", err)
}

// checkHeader returns an error if a column is unknown or repeated, or no column identifies a row.
func checkHeader(operation event.BulkOperation, names []string) error {
	known := slices.Sorted(maps.Keys(columns(operation)))
	seen := make(map[string]bool)
	for i, name := range names {
		if !utf8.ValidString(name) {
			return inputErrorf("column %d of the header is not valid UTF-8: encode the CSV as UTF-8", i+1)
		}
		if !slices.Contains(known, name) {
			return inputErrorf("unknown column %s of %s: %s", quoteShort(name), operation,
				suggest.Hint(name, known, "Known are "+strings.Join(known, ", ")))
		}
		if seen[name] {
			return inputErrorf("the column %s appears twice", quoteShort(name))
		}
		seen[name] = true
	}
	return nil
}

// quoteShort quotes input for an error, without repeating much of it.
func quoteShort(s string) string {
	const most = 64
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return strconv.Quote(s)
}

// csvRow returns a record as a JSON row. Empty cells are absent.
func csvRow(number int, names []string, types map[string]reflect.Kind, cells []string) Row {
	r := Row{Reference: strconv.Itoa(number)}
	if len(cells) != len(names) {
		r.Detail = fmt.Sprintf("the row has %d cells, and the header has %d", len(cells), len(names))
		return r
	}
	members := map[string]any{}
	for i, cell := range cells {
		if !utf8.ValidString(cell) {
			r.Detail = "the row is not valid UTF-8: encode the CSV as UTF-8"
			return r
		}
		switch {
		case cell == "":
		case names[i] == referenceColumn:
			if len(cell) > maxReference {
				r.Detail = fmt.Sprintf("reference is longer than %d bytes", maxReference)
				return r
			}
			r.Reference = cell
		case types[names[i]] == reflect.Slice:
			members[names[i]] = strings.Split(cell, ";")
		case types[names[i]] == reflect.Int:
			members[names[i]] = cell
			if n, err := strconv.ParseInt(cell, 10, 64); err == nil {
				members[names[i]] = n
			}
		default:
			members[names[i]] = cell
		}
	}
	members[referenceColumn] = r.Reference
	body, err := json.Marshal(members, json.Deterministic(true))
	if err != nil {
		r.Detail = "the row is not valid UTF-8: encode the CSV as UTF-8"
		return r
	}
	r.Body = body
	return r
}
