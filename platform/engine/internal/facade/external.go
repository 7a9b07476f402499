package facade

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/platform/engine/internal/chdb"
)

// externalTable is a table that came with the request and lives as long as
// the request.
type externalTable struct {
	name      string
	structure string // "a UInt64, b String"
	format    string
	data      []byte
	creation  string // the statement that creates it
}

// What the tables of one request hold together at most, an analyst's less, because
// they are read before the statement runs.
const (
	maxExternalSize  = 1 << 30
	maxAnalystTables = 128 << 20
)

// forAnalysts says whether an analyst may send tables in a format: one that holds
// values. Not among them are Values, whose values are expressions, and those that
// read a schema's file.
func forAnalysts(format string) bool {
	values := []string{
		"TabSeparated", "TabSeparatedWithNames", "TabSeparatedWithNamesAndTypes", "TabSeparatedRaw", "TabSeparatedRawWithNames", "TabSeparatedRawWithNamesAndTypes",
		"TSV", "TSVWithNames", "TSVWithNamesAndTypes", "TSVRaw", "TSVRawWithNames", "TSVRawWithNamesAndTypes", "CSV", "CSVWithNames", "CSVWithNamesAndTypes",
		"JSON", "JSONCompact", "JSONColumns", "JSONEachRow", "JSONLines", "NDJSON", "JSONCompactEachRow", "JSONCompactEachRowWithNames", "JSONCompactEachRowWithNamesAndTypes",
		"JSONStringsEachRow", "JSONCompactStringsEachRow", "JSONAsString", "LineAsString", "RawBLOB", "TSKV",
		"Native", "RowBinary", "RowBinaryWithNames", "RowBinaryWithNamesAndTypes", "Parquet", "Arrow", "ArrowStream", "ORC", "Avro",
	}
	return slices.ContainsFunc(values, func(name string) bool { return strings.EqualFold(name, format) })
}

func isMultipart(r *http.Request) bool {
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && mediaType == "multipart/form-data"
}

// handleForm answers a form: fields are parameters, files are external tables.
func (s *Server) handleForm(out *response, r *http.Request, values url.Values, user *User) error {
	form, err := r.MultipartReader()
	if err != nil {
		return errPoco.errorf("HTML Form Exception: %s", err)
	}
	leave, err := s.queue(r.Context(), user)
	if err != nil {
		return err
	}
	defer leave()
	var tables []externalTable
	left := int64(maxExternalSize)
	if user.Analyst {
		left = maxAnalystTables
		if limit := s.cfg.AnalystLimits.MaxExecutionTime; limit > 0 {
			// The place is the client's no longer than for a query, however slowly it sends.
			if err := http.NewResponseController(out.w).SetReadDeadline(time.Now().Add(limit)); err != nil {
				return bodyError(err)
			}
		}
	}
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return errPoco.errorf("HTML Form Exception: %s", err)
		}
		limit := left
		if part.FileName() == "" && !isFilePart(part) {
			limit = maxFieldValueSize
		}
		data, err := io.ReadAll(io.LimitReader(part, limit+1))
		if err != nil {
			return errPoco.errorf("HTML Form Exception: %s", err)
		}
		if int64(len(data)) > limit {
			return errPoco.errorf("HTML Form Exception: Field value too long")
		}
		if !isFilePart(part) {
			values.Add(part.FormName(), string(data))
			continue
		}
		left -= int64(len(data))
		tables = append(tables, externalTable{name: part.FormName(), data: data})
	}
	if user.Analyst {
		if err := http.NewResponseController(out.w).SetReadDeadline(time.Time{}); err != nil {
			return bodyError(err)
		}
	}
	if e := checkFields(values); e != nil {
		return e
	}
	ignore := make(map[string]bool)
	for i := range tables {
		t := &tables[i]
		for _, suffix := range []string{"_format", "_structure", "_types"} {
			ignore[t.name+suffix] = true
		}
		if err := t.describe(values); err != nil {
			return err
		}
		if user.Analyst && !forAnalysts(t.format) {
			return errAccessDenied.errorf("%s: Not enough privileges. Tables in the format %s are not for analysts", user.Name, t.format)
		}
	}
	q, e := s.parseRequest(values, user, false, ignore)
	if e != nil {
		return e
	}
	out.prepare(q, r)
	return s.execute(r.Context(), out, q, parseStatement(values.Get("query")), nil, tables)
}

// isFilePart reports a part with a filename parameter, also an empty one, which
// is how clickhouse-go sends tables.
func isFilePart(part *multipart.Part) bool {
	_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if err != nil {
		return false
	}
	_, ok := params["filename"]
	return ok
}

func (t *externalTable) describe(values url.Values) *chdb.Error {
	t.format = values.Get(t.name + "_format")
	if t.format == "" {
		t.format = "TabSeparated"
	}
	if !plainIdentifier.MatchString(t.format) {
		return code{73, "UNKNOWN_FORMAT"}.errorf("Unknown format %s", t.format)
	}
	t.structure = values.Get(t.name + "_structure")
	if t.structure == "" {
		types := values.Get(t.name + "_types")
		if types == "" {
			return errBadArguments.errorf("Neither structure nor types have been provided for external table %s. Use fields %s_structure or %s_types to do so", t.name, t.name, t.name)
		}
		var columns []string
		for i, typeName := range splitTypes(types) {
			columns = append(columns, "_"+strconv.Itoa(i+1)+" "+typeName)
		}
		t.structure = strings.Join(columns, ", ")
	}
	return nil
}

// splitTypes splits at commas outside parentheses.
func splitTypes(s string) []string {
	var out []string
	depth, start := 0, 0
	for i, c := range s {
		switch c {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				out = append(out, strings.TrimSpace(s[start:i]))
				start = i + 1
			}
		}
	}
	return append(out, strings.TrimSpace(s[start:]))
}

// externalConnection opens a connection that has the tables as temporary ones.
// An analyst's restriction follows after they are filled.
func (s *Server) externalConnection(q *request, tables []externalTable) (*pooled, func(bool), error) {
	open := q.setup
	open.settings = nil
	readonly := ""
	for _, p := range q.setup.settings {
		if p.Name == "readonly" {
			readonly = p.Value
			continue
		}
		open.settings = append(open.settings, p)
	}
	conn, err := s.pool.open(open, "")
	if err != nil {
		return nil, nil, err
	}
	for _, table := range tables {
		if err := table.create(conn); err != nil {
			conn.Close()
			return nil, nil, err
		}
	}
	if readonly != "" {
		if err := conn.Exec("SET readonly = " + quoteString(readonly)); err != nil {
			conn.Close()
			return nil, nil, err
		}
	}
	return conn, func(bool) { conn.Close() }, nil
}

// create makes the table and fills it.
func (t externalTable) create(conn *pooled) error {
	if err := conn.Exec(t.creation); err != nil {
		return err
	}
	insert, err := conn.Insert("INSERT INTO "+quoteIdentifier(t.name), t.format, nil)
	if err != nil {
		return err
	}
	defer insert.Close()
	for data := t.data; len(data) > 0; {
		n := min(len(data), 1<<20)
		if insert.Append(data[:n]) != nil {
			break // Done has the reason
		}
		data = data[n:]
	}
	_, err = insert.Done()
	return err
}

// define makes the statement that creates the table. The structure comes from
// outside and ends up in a statement, so the engine's normal form of that is
// checked to have columns and nothing else.
func (s *Server) define(t *externalTable, q *request) error {
	if strings.Contains(t.structure, ";") {
		return errNoColumns(t)
	}
	normal, err := s.normalForm(q, "CREATE TEMPORARY TABLE "+quoteIdentifier(t.name)+" ("+t.structure+"\n) ENGINE = Memory")
	if err != nil {
		return err
	}
	if err := s.denied.check(q, normal); err != nil {
		return err
	}
	if !onlyColumns(normal) {
		return errNoColumns(t)
	}
	t.creation = normal
	return nil
}

func errNoColumns(t *externalTable) *chdb.Error {
	return errSyntax.errorf("The structure of the external table %s is not a list of columns", t.name)
}

// onlyColumns says whether a CREATE TEMPORARY TABLE in normal form gives its
// columns names and types, and nothing that has an expression.
func onlyColumns(normal string) bool {
	lex := lexer{text: normal}
	for _, keyword := range []string{"CREATE", "TEMPORARY", "TABLE"} {
		if !lex.next().is(keyword) {
			return false
		}
	}
	if lex.next().name() == "" || !lex.next().punct('(') {
		return false
	}
	depth, place := 1, 0 // 0: a column's name, 1: its type, 2: what follows
	special := false     // the name may be a keyword: PROJECTION p (SELECT ...)
	for depth > 0 {
		tok := lex.next()
		switch {
		case tok.kind == tokenEnd:
			return false
		case tok.punct('('):
			if depth == 1 && (place != 2 || special) {
				return false
			}
			depth++
		case tok.punct(')'):
			depth--
		case depth > 1:
		case tok.punct(',') && place == 2:
			place = 0
		case place == 0 && tok.name() != "":
			special = slices.ContainsFunc([]string{"CONSTRAINT", "INDEX", "PROJECTION", "STATISTICS", "PRIMARY", "FOREIGN"}, tok.is)
			place++
		case place == 1 && tok.kind == tokenWord && !slices.ContainsFunc([]string{"DEFAULT", "MATERIALIZED", "ALIAS", "EPHEMERAL"}, tok.is):
			place++
		case place == 2 && (tok.is("NOT") || tok.is("NULL")):
		default:
			return false
		}
	}
	return place == 2 && lex.next().is("ENGINE") && lex.next().punct('=') && lex.next().is("Memory") && lex.next().kind == tokenEnd
}
