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
	created   bool
}

// What a form holds at most, in files and fields together. An analyst's holds less,
// and few tables, because it is read before the statement runs.
const (
	maxFormSize      = 1 << 30
	maxAnalystForm   = 128 << 20
	maxAnalystTables = 16
	partSize         = 1 << 10 // what a part takes beside its name and data, with room to spare
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
	leave, err := s.queue(r.Context(), out.w, user)
	if err != nil {
		return err
	}
	defer leave()
	var tables []externalTable
	left := int64(maxFormSize)
	if user.Analyst {
		left = maxAnalystForm
	}
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return errPoco.errorf("HTML Form Exception: %s", err)
		}
		left -= int64(len(part.FormName())) + partSize
		limit := left
		if !isFilePart(part) {
			limit = min(left, maxFieldValueSize)
		}
		if limit < 0 {
			return errPoco.errorf("HTML Form Exception: Form too long")
		}
		data, err := io.ReadAll(io.LimitReader(part, limit+1))
		if err != nil {
			return errPoco.errorf("HTML Form Exception: %s", err)
		}
		if int64(len(data)) > limit {
			return errPoco.errorf("HTML Form Exception: Field value too long")
		}
		left -= int64(len(data))
		if !isFilePart(part) {
			values.Add(part.FormName(), string(data))
			continue
		}
		tables = append(tables, externalTable{name: part.FormName(), data: data})
		if user.Analyst && len(tables) > maxAnalystTables {
			return errAccessDenied.errorf("%s: Not enough privileges. An analyst may send %d tables at most", user.Name, maxAnalystTables)
		}
	}
	if err := endDeadline(out.w, user); err != nil {
		return err
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

// externalConnection opens a connection for a request with tables. What would
// keep it from filling them is set when that is done.
func (s *Server) externalConnection(q *request, tables []externalTable) (*pooled, func(bool), error) {
	open := q.setup
	open.settings = nil
	var then []chdb.Param
	for _, p := range q.setup.settings {
		switch {
		case p.Name == "readonly":
			then = append(then, p)
			continue
		case p.Name == "max_memory_usage" && q.user.Analyst:
			// Every table is filled by a statement of its own, and its rows count for
			// that one only. So the tables share one half, and the query has the other.
			memory, err := strconv.ParseInt(p.Value, 10, 64)
			if err != nil {
				return nil, nil, err
			}
			then = append(then, chdb.Param{Name: p.Name, Value: atLeastOne(memory / 2)})
			p.Value = atLeastOne(memory / 2 / int64(len(tables)))
		}
		open.settings = append(open.settings, p)
	}
	conn, err := s.pool.open(open, "")
	if err != nil {
		return nil, nil, err
	}
	conn.then = then
	return conn, func(bool) { conn.Close() }, nil
}

// atLeastOne writes a limit, of which 0 would be none.
func atLeastOne(limit int64) string { return strconv.FormatInt(max(1, limit), 10) }

// fillTables makes the tables on the request's connection, and sets what follows them.
func fillTables(conn *pooled, tables []externalTable) error {
	for i := range tables {
		if err := tables[i].create(conn); err != nil {
			return err
		}
	}
	for _, p := range conn.then {
		if err := conn.Exec("SET " + p.Name + " = " + quoteString(p.Value)); err != nil {
			return err
		}
	}
	return nil
}

// create makes the table and fills it.
func (t *externalTable) create(conn *pooled) error {
	if err := conn.Exec(t.creation); err != nil {
		return err
	}
	t.created = true
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
	if err := s.deniedTo(q.user).check(q, normal); err != nil {
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
