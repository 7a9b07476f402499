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

// externalTable is an external table of a request.
type externalTable struct {
	name      string
	structure string // "a UInt64, b String"
	format    string
	data      []byte
	creation  string // CREATE statement
	created   bool
}

// Limits of a form, for files and fields together. Those of analysts are lower, because a form is read before the
// statement runs.
const (
	maxFormSize      = 1 << 30
	maxAnalystForm   = 128 << 20
	maxAnalystTables = 16
	partSize         = 1 << 10 // overhead of a part in addition to its name and data, rounded up
)

// isAnalystFormat reports whether analysts may send tables in a format. Formats that hold only values are allowed;
// Values, which holds expressions, and formats that read schema files are not.
func isAnalystFormat(format string) bool {
	values := []string{
		"TabSeparated", "TabSeparatedWithNames", "TabSeparatedWithNamesAndTypes",
		"TabSeparatedRaw", "TabSeparatedRawWithNames", "TabSeparatedRawWithNamesAndTypes",
		"TSV", "TSVWithNames", "TSVWithNamesAndTypes", "TSVRaw", "TSVRawWithNames", "TSVRawWithNamesAndTypes",
		"CSV", "CSVWithNames", "CSVWithNamesAndTypes",
		"JSON", "JSONCompact", "JSONColumns", "JSONEachRow", "JSONLines", "NDJSON",
		"JSONCompactEachRow", "JSONCompactEachRowWithNames", "JSONCompactEachRowWithNamesAndTypes",
		"JSONStringsEachRow", "JSONCompactStringsEachRow", "JSONAsString", "LineAsString", "RawBLOB", "TSKV",
		"Native", "RowBinary", "RowBinaryWithNames", "RowBinaryWithNamesAndTypes",
		"Parquet", "Arrow", "ArrowStream", "ORC", "Avro",
	}
	return slices.ContainsFunc(values, func(name string) bool { return strings.EqualFold(name, format) })
}

func isMultipart(r *http.Request) bool {
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && mediaType == "multipart/form-data"
}

// handleForm serves a multipart form: fields are parameters, files are external tables.
func (s *Server) handleForm(out *response, r *http.Request, values url.Values, user *User) error {
	form, err := r.MultipartReader()
	if err != nil {
		return errPoco.errorf("HTML Form Exception: %s", err)
	}
	release, err := s.admit(r.Context(), out.w, user)
	if err != nil {
		return err
	}
	defer release()
	var tables []externalTable
	remaining := int64(maxFormSize)
	if user.Analyst {
		remaining = maxAnalystForm
	}
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return errPoco.errorf("HTML Form Exception: %s", err)
		}
		remaining -= int64(len(part.FormName())) + partSize
		limit := remaining
		if !isFilePart(part) {
			limit = min(remaining, maxFieldValueSize)
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
		remaining -= int64(len(data))
		if !isFilePart(part) {
			values.Add(part.FormName(), string(data))
			continue
		}
		tables = append(tables, externalTable{name: part.FormName(), data: data})
		if user.Analyst && len(tables) > maxAnalystTables {
			return errAccessDenied.errorf("%s: Not enough privileges. An analyst may send at most %d tables",
				user.Name, maxAnalystTables)
		}
	}
	if err := clearReadDeadline(out.w, user); err != nil {
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
		if user.Analyst && !isAnalystFormat(t.format) {
			return errAccessDenied.errorf("%s: Not enough privileges. Tables in the format %s are not for analysts",
				user.Name, t.format)
		}
	}
	q, e := s.parseRequest(values, user, false, ignore)
	if e != nil {
		return e
	}
	out.prepare(q, r)
	return s.execute(r.Context(), out, q, parseStatement(values.Get("query")), nil, tables)
}

// isFilePart reports whether a part has a filename parameter. clickhouse-go sends tables with an empty one.
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
			return errBadArguments.errorf("Neither structure nor types have been provided for external table %s. "+
				"Use fields %s_structure or %s_types to do so", t.name, t.name, t.name)
		}
		var columns []string
		for i, typeName := range splitTypes(types) {
			columns = append(columns, "_"+strconv.Itoa(i+1)+" "+typeName)
		}
		t.structure = strings.Join(columns, ", ")
	}
	return nil
}

// splitTypes splits at commas outside of parentheses.
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

// externalConnection opens a connection for a request with external tables. Settings that would prevent filling the
// tables are applied afterwards.
func (s *Server) externalConnection(q *request, tables []externalTable) (*pooled, func(bool), error) {
	open := q.setup
	open.settings = nil
	var afterFill []chdb.Param
	for _, p := range q.setup.settings {
		switch {
		case p.Name == "readonly":
			afterFill = append(afterFill, p)
			continue
		case p.Name == "max_memory_usage" && q.user.Analyst:
			// Each table is filled by a separate statement with its own limit. So the tables share one half of the
			// memory, and the query has the other half.
			memory, err := strconv.ParseInt(p.Value, 10, 64)
			if err != nil {
				return nil, nil, err
			}
			afterFill = append(afterFill, chdb.Param{Name: p.Name, Value: atLeastOne(memory / 2)})
			p.Value = atLeastOne(memory / 2 / int64(len(tables)))
		}
		open.settings = append(open.settings, p)
	}
	conn, err := s.pool.open(open, "")
	if err != nil {
		return nil, nil, err
	}
	conn.afterFill = afterFill
	return conn, func(bool) { conn.Close() }, nil
}

// atLeastOne formats a limit. A limit of 0 would mean none.
func atLeastOne(limit int64) string { return strconv.FormatInt(max(1, limit), 10) }

// fillTables creates and fills the tables on the request's connection, and applies the remaining settings.
func fillTables(conn *pooled, tables []externalTable) error {
	for i := range tables {
		if err := tables[i].create(conn); err != nil {
			return err
		}
	}
	for _, p := range conn.afterFill {
		if err := conn.Exec("SET " + p.Name + " = " + quoteString(p.Value)); err != nil {
			return err
		}
	}
	return nil
}

// create creates the table and fills it.
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
			break // Done returns the error
		}
		data = data[n:]
	}
	_, err = insert.Done()
	return err
}

// define sets the statement that creates the table. The structure is user input in a statement, so the engine's normal
// form of it is checked to contain only columns.
func (s *Server) define(t *externalTable, q *request) error {
	if strings.Contains(t.structure, ";") {
		return errNoColumns(t)
	}
	normal, err := s.normalForm(q,
		"CREATE TEMPORARY TABLE "+quoteIdentifier(t.name)+" ("+t.structure+"\n) ENGINE = Memory")
	if err != nil {
		return err
	}
	if err := s.deniedTo(q.user).check(q, normal); err != nil {
		return err
	}
	if !hasOnlyColumns(normal) {
		return errNoColumns(t)
	}
	t.creation = normal
	return nil
}

func errNoColumns(t *externalTable) *chdb.Error {
	return errSyntax.errorf("The structure of the external table %s is not a list of columns", t.name)
}

// hasOnlyColumns reports whether a CREATE TEMPORARY TABLE in normal form has only column names and types, without
// expressions.
func hasOnlyColumns(normal string) bool {
	lex := lexer{text: normal}
	for _, keyword := range []string{"CREATE", "TEMPORARY", "TABLE"} {
		if !lex.next().is(keyword) {
			return false
		}
	}
	if lex.next().name() == "" || !lex.next().punct('(') {
		return false
	}
	const atName, atType, afterType = 0, 1, 2
	depth, state := 1, atName
	special := false // the name may be a keyword: PROJECTION p (SELECT ...)
	tableKeywords := []string{"CONSTRAINT", "INDEX", "PROJECTION", "STATISTICS", "PRIMARY", "FOREIGN"}
	columnKeywords := []string{"DEFAULT", "MATERIALIZED", "ALIAS", "EPHEMERAL"}
	for depth > 0 {
		tok := lex.next()
		switch {
		case tok.kind == tokenEnd:
			return false
		case tok.punct('('):
			if depth == 1 && (state != afterType || special) {
				return false
			}
			depth++
		case tok.punct(')'):
			depth--
		case depth > 1:
		case tok.punct(',') && state == afterType:
			state = atName
		case state == atName && tok.name() != "":
			special = slices.ContainsFunc(tableKeywords, tok.is)
			state = atType
		case state == atType && tok.kind == tokenWord && !slices.ContainsFunc(columnKeywords, tok.is):
			state = afterType
		case state == afterType && (tok.is("NOT") || tok.is("NULL")):
		default:
			return false
		}
	}
	return state == afterType && lex.next().is("ENGINE") && lex.next().punct('=') && lex.next().is("Memory") &&
		lex.next().kind == tokenEnd
}
