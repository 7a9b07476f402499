package searchindex

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json/jsontext"

	"muster/schemas/analysis"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// Row is the newest row of a person or company in its collection's table.
type Row struct {
	Hash uint64 // of ID
	ID   string
	// Deleted is set if the record was withdrawn; the document is then empty.
	Deleted bool
	// Content identifies version and content of the row, and of that of the linked account.
	Content int64
	// Version is the newest version of the record and of its version bumps, also those of other content.
	Version int64
	subject suppress.Subject
	fields  []byte // members of the document
}

// IsErased reports whether a person is in the suppression set. The set may be nil. Companies are not erased, but
// withdrawn.
func (r *Row) IsErased(set *suppress.Set) bool {
	if r.subject.ID == "" {
		return false
	}
	_, erased := set.Subject(r.subject)
	return erased
}

// AppendDocument appends the document of the row, one line of JSON.
func (r *Row) AppendDocument(b []byte, version int64, partition int) ([]byte, error) {
	b = append(b, `{"row":{"hash":`...)
	b = strconv.AppendInt(b, SortableHash(r.Hash), 10)
	b = append(b, `,"id":`...)
	b, err := jsontext.AppendQuote(b, r.ID)
	if err != nil {
		return b, fmt.Errorf("search index: encode: %w", err)
	}
	b = append(b, `,"content":`...)
	b = strconv.AppendInt(b, r.Content, 10)
	b = append(b, `,"version":`...)
	b = strconv.AppendInt(b, version, 10)
	b = append(b, `,"partition":`...)
	b = strconv.AppendInt(b, int64(partition), 10)
	b = append(b, '}')
	b = append(b, r.fields...)
	return append(b, '}'), nil
}

// ReadRows returns the rows of documents, by ID. Documents without a row are absent.
//
// A row has some hundred columns, and thousands of rows are read to find one. The newest versions are read first, so
// that the parts with older ones, which are the large parts, are not read.
func ReadRows(
	ctx context.Context, conn driver.Conn, c *readmodel.SearchCollection, ids []string,
) (map[string]*Row, error) {
	out := make(map[string]*Row, len(ids))
	newest, err := newestVersions(ctx, conn, c, ids)
	if err != nil || len(newest) == 0 {
		return out, err
	}
	add := func(r *Row) {
		if _, wanted := newest[r.ID]; wanted { // Several documents may have one hash.
			out[r.ID] = r
			delete(newest, r.ID)
		}
	}
	if err := readRows(ctx, conn, c, selection{keys(c, newest), versions(c, newest)}, add); err != nil {
		return nil, err
	}
	if len(newest) == 0 {
		return out, nil
	}
	// Newer versions have replaced the others, or a replica does not have them yet.
	err = readRows(ctx, conn, c, selection{keys: keys(c, newest)}, add)
	return out, err
}

// version is the newest version of a row.
type version struct {
	hash uint64
	ver  string
}

// newestVersions returns the newest versions of the rows of documents, by ID.
func newestVersions(
	ctx context.Context, conn driver.Conn, c *readmodel.SearchCollection, ids []string,
) (out map[string]version, err error) {
	out = make(map[string]version, len(ids))
	for _, id := range ids {
		out[id] = version{hash: readmodel.KeyHash(c.Namespace, id)}
	}
	if len(ids) == 0 {
		return out, nil
	}
	rows, err := conn.Query(ctx, "SELECT "+c.ID+", toString(max(ver)) FROM "+c.Table+" WHERE "+keys(c, out)+
		" GROUP BY "+c.Hash+", "+c.ID)
	if err != nil {
		return nil, storeError(err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var id, ver string
		if err := rows.Scan(&id, &ver); err != nil {
			return nil, fmt.Errorf("search index: read versions: %w", err)
		}
		if v, wanted := out[id]; wanted {
			v.ver = ver
			out[id] = v
		}
	}
	if err := rows.Err(); err != nil {
		return nil, storeError(err)
	}
	maps.DeleteFunc(out, func(_ string, v version) bool { return v.ver == "" })
	return out, nil
}

// keys returns the condition for the rows of documents.
func keys(c *readmodel.SearchCollection, of map[string]version) string {
	hashes := make([]string, 0, len(of))
	for _, v := range of {
		hashes = append(hashes, strconv.FormatUint(v.hash, 10))
	}
	return c.Hash + " IN (" + strings.Join(hashes, ",") + ")"
}

// versions returns the condition for the given versions of rows.
func versions(c *readmodel.SearchCollection, of map[string]version) string {
	pairs := make([]string, 0, len(of))
	for _, v := range of {
		pairs = append(pairs, fmt.Sprintf("(%d,toUInt128('%s'))", v.hash, v.ver))
	}
	return "(" + c.Hash + ", ver) IN (" + strings.Join(pairs, ",") + ")"
}

// Page returns up to limit rows in the order of the table, hash and ID, from the hash on that follows one; from
// the beginning if first is set. It returns all rows of a hash, so that the last one's hash continues the scan. It
// returns no rows at the end.
func Page(
	ctx context.Context, conn driver.Conn, c *readmodel.SearchCollection, after uint64, first bool, limit int,
) ([]*Row, error) {
	from := ""
	if !first {
		from = " WHERE " + c.Hash + " > " + strconv.FormatUint(after, 10)
	}
	var last uint64
	var n uint64
	row := conn.QueryRow(ctx, "SELECT max("+c.Hash+"), count() FROM (SELECT "+c.Hash+" FROM "+c.Table+from+
		" ORDER BY "+c.Hash+" LIMIT "+strconv.Itoa(limit)+")")
	if err := row.Scan(&last, &n); err != nil {
		return nil, storeError(err)
	}
	if n == 0 {
		return nil, nil
	}
	condition := c.Hash + " <= " + strconv.FormatUint(last, 10)
	if !first {
		condition += " AND " + c.Hash + " > " + strconv.FormatUint(after, 10)
	}
	var out []*Row
	if err := readRows(ctx, conn, c, selection{keys: condition}, func(r *Row) { out = append(out, r) }); err != nil {
		return nil, err
	}
	slices.SortFunc(out, compareRows)
	return out, nil
}

func compareRows(a, b *Row) int {
	switch {
	case a.Hash < b.Hash:
		return -1
	case a.Hash > b.Hash:
		return 1
	}
	return strings.Compare(a.ID, b.ID)
}

// reader reads rows: its columns are scanned into values, from which documents are built.
type reader struct {
	collection        *readmodel.SearchCollection
	hash, contentHash uint64
	id                string
	deleted           bool
	version           int64
	revision          uint32
	linked            uint64   // version of the linked account's row; 0: there is none
	bumpedContents    []uint64 // content hashes of version bumps
	bumpedVersions    []int64  // their versions
	fields            []fieldValue
}

// fieldValue holds the value of a field in the current row.
type fieldValue struct {
	readmodel.SearchField
	whole       string
	wholes      []string
	tokens      []string
	tokenLists  [][]string
	number      int64
	numbers     []int64
	flags       []uint8
	isElement   bool
	columnNames []string
}

func newReader(c *readmodel.SearchCollection) *reader {
	r := &reader{collection: c}
	for _, f := range c.Fields {
		v := fieldValue{SearchField: f, isElement: f.Nested != "", columnNames: []string{f.Column}}
		if f.Type == readmodel.SearchText {
			v.columnNames = append(v.columnNames, f.Tokens())
		}
		r.fields = append(r.fields, v)
	}
	return r
}

// selection is a condition on Hash, and one on the version. Without the latter the newest version is selected.
type selection struct{ keys, versions string }

// query returns the query for rows.
func (r *reader) query(of selection) string {
	c := r.collection
	fixed := []string{c.Hash, c.ID, "deleted", "version", "revision", "content_hash"}
	own := slices.Clone(fixed)
	var all, linked []string
	for _, f := range r.fields {
		all = append(all, f.columnNames...)
		if f.Linked {
			linked = append(linked, f.columnNames...)
		} else {
			own = append(own, f.columnNames...)
		}
	}
	rows := " FROM " + c.Table + " FINAL WHERE " + of.keys
	if of.versions != "" {
		rows = " FROM " + c.Table + " WHERE " + of.keys + " AND " + of.versions
	}
	columns := strings.Join(append(fixed, all...), ", ")
	from := " FROM (SELECT " + strings.Join(own, ", ") + rows + ") AS documents"
	key := c.Hash + ", " + c.ID
	ver, bumps := "toUInt64(0)", "emptyArrayUInt64(), emptyArrayInt64()"
	if c.LinkedTable != "" {
		ver = "ver"
		from += " LEFT JOIN (SELECT " + strings.Join(append([]string{key, ver}, linked...), ", ") + " FROM " +
			c.LinkedTable + " FINAL WHERE " + of.keys + ") AS accounts USING (" + key + ")"
	}
	if c.Updated != "" {
		bumps = "bumped_contents, bumped_versions"
		from += " LEFT JOIN (SELECT key_hash AS " + c.Hash + ", key AS " + c.ID + ", groupArray(content_hash) AS " +
			"bumped_contents, groupArray(version) AS bumped_versions FROM seen_versions WHERE kind = '" + string(c.Kind) +
			"' AND " + of.keys + " GROUP BY " + key + ") AS bumps USING (" + key + ")"
	}
	return "SELECT " + columns + ", " + ver + ", " + bumps + from + " SETTINGS join_use_nulls = 0"
}

func (r *reader) destinations() []any {
	out := []any{&r.hash, &r.id, &r.deleted, &r.version, &r.revision, &r.contentHash}
	for i := range r.fields {
		f := &r.fields[i]
		switch {
		case f.Type == readmodel.SearchText && f.isElement:
			out = append(out, &f.wholes, &f.tokenLists)
		case f.Type == readmodel.SearchText:
			out = append(out, &f.whole, &f.tokens)
		case f.Type == readmodel.SearchBoolean:
			out = append(out, &f.flags)
		case f.isElement:
			out = append(out, &f.numbers)
		default:
			out = append(out, &f.number)
		}
	}
	return append(out, &r.linked, &r.bumpedContents, &r.bumpedVersions)
}

func readRows(
	ctx context.Context, conn driver.Conn, c *readmodel.SearchCollection, of selection, add func(*Row),
) (err error) {
	r := newReader(c)
	rows, err := conn.Query(ctx, r.query(of))
	if err != nil {
		return storeError(err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	destinations := r.destinations()
	for rows.Next() {
		if err := rows.Scan(destinations...); err != nil {
			return fmt.Errorf("search index: read rows: %w", err)
		}
		row, err := r.row()
		if err != nil {
			return err
		}
		add(row)
	}
	if err := rows.Err(); err != nil {
		return storeError(err)
	}
	return nil
}

// storeError leaves out the address of the store and the statement's parameters.
func storeError(err error) error {
	var inURL *url.Error
	if errors.As(err, &inURL) {
		err = inURL.Err
	}
	return fmt.Errorf("search index: read rows: %w", err)
}

func (r *reader) row() (*Row, error) {
	updated, newest := r.version, r.version
	for i, version := range r.bumpedVersions {
		newest = max(newest, version)
		if r.bumpedContents[i] == r.contentHash {
			updated = max(updated, version)
		}
	}
	content := fnv.New64a()
	var b [28]byte
	binary.LittleEndian.PutUint64(b[:], uint64(updated)) //nolint:gosec // the bits
	binary.LittleEndian.PutUint32(b[8:], r.revision)
	binary.LittleEndian.PutUint64(b[12:], r.contentHash)
	binary.LittleEndian.PutUint64(b[20:], r.linked)
	_, _ = content.Write(b[:]) // never fails
	row := &Row{
		Hash: r.hash, ID: r.id, Deleted: r.deleted, Version: newest,
		Content: int64(content.Sum64()), //nolint:gosec // the bits
	}
	if r.collection.Kind == record.KindNetworkPerson {
		row.subject = suppress.Subject{Platform: identity.Network, ID: r.id}
	}
	if r.deleted {
		return row, nil
	}
	for i := range r.fields {
		f := &r.fields[i]
		switch {
		case f.Path == r.collection.Updated && updated > r.version:
			f.number = readmodel.Milliseconds(record.Version(updated))
		case f.Linked && r.linked == 0:
			f.number = readmodel.SearchMissing // The join has 0.
		case f.Path == "network_username" && f.whole != "":
			row.subject.Username = identity.NormalizeUsername(f.whole)
		case f.Path == "profile.personal_email" && f.whole != "":
			if email, err := identity.NormalizeEmail(f.whole); err == nil {
				row.subject.Emails = []string{email}
			}
		}
	}
	var err error
	row.fields, err = r.appendFields(nil)
	return row, err
}

// appendFields appends the members of a document, each with a leading comma.
func (r *reader) appendFields(b []byte) (_ []byte, err error) {
	for i := range r.fields {
		if f := &r.fields[i]; f.Nested == "" || f.Flat {
			if b, err = f.appendRoot(b); err != nil {
				return nil, fmt.Errorf("search index: encode: %w", err)
			}
		}
	}
	for _, nested := range r.collection.Nested {
		if b, err = r.appendElements(b, nested); err != nil {
			return nil, fmt.Errorf("search index: encode: %w", err)
		}
	}
	return b, nil
}

func (r *reader) appendElements(b []byte, nested string) (_ []byte, err error) {
	n := 0
	for i := range r.fields {
		if f := &r.fields[i]; f.Nested == nested {
			n = max(n, len(f.wholes), len(f.numbers), len(f.flags))
		}
	}
	if n == 0 {
		return b, nil
	}
	b = append(append(append(b, `,"`...), nested...), `":[`...)
	for e := range n {
		if e > 0 {
			b = append(b, ',')
		}
		begin := len(b)
		for i := range r.fields {
			if f := &r.fields[i]; f.Nested == nested {
				if b, err = f.appendElement(b, e); err != nil {
					return nil, err
				}
			}
		}
		if len(b) == begin {
			b = append(b, "{}"...)
			continue
		}
		b[begin] = '{' // in place of the leading comma
		b = append(b, '}')
	}
	return append(b, ']'), nil
}

func (f *fieldValue) appendRoot(b []byte) ([]byte, error) {
	if f.Flat {
		return f.appendTexts(b)
	}
	if f.Type == readmodel.SearchText {
		return f.appendText(b, f.Path, f.whole, f.tokens)
	}
	return appendNumber(b, f.Path, f.number), nil
}

func (f *fieldValue) appendElement(b []byte, e int) ([]byte, error) {
	name := strings.TrimPrefix(f.Path, f.Nested+".")
	switch {
	case f.Type == readmodel.SearchText && e < len(f.wholes) && e < len(f.tokenLists):
		return f.appendText(b, name, f.wholes[e], f.tokenLists[e])
	case f.Type == readmodel.SearchBoolean && e < len(f.flags):
		return strconv.AppendBool(appendName(b, name), f.flags[e] != 0), nil
	case e < len(f.numbers):
		return appendNumber(b, name, f.numbers[e]), nil
	}
	return b, nil
}

// appendText appends the tokens of a text and of its subfields, and its whole value unless it is too long.
func (f *fieldValue) appendText(b []byte, name, whole string, tokens []string) (_ []byte, err error) {
	if len(tokens) == 0 && whole == "" {
		return b, nil
	}
	if f.Subfields {
		folded := make([]string, len(tokens))
		for i, t := range tokens {
			folded[i] = analysis.Fold(t)
		}
		if b, err = jsontext.AppendQuote(appendName(b, name+".folded"), strings.Join(folded, " ")); err != nil {
			return b, err
		}
		var code []string
		for _, t := range analysis.Code(nil, whole) {
			code = append(code, t.Text)
		}
		if b, err = jsontext.AppendQuote(appendName(b, name+".code"), strings.Join(code, " ")); err != nil {
			return b, err
		}
	}
	b, err = jsontext.AppendQuote(appendName(b, name+".text"), strings.Join(tokens, " "))
	if err != nil || whole == "" || !readmodel.IsKeyword(whole) {
		return b, err
	}
	return jsontext.AppendQuote(appendName(b, name+".keyword"), whole)
}

// appendTexts appends the texts of a list of values, and their whole values.
func (f *fieldValue) appendTexts(b []byte) (_ []byte, err error) {
	var texts, whole []string
	for e := range min(len(f.tokenLists), len(f.wholes)) {
		value := f.wholes[e]
		if len(f.tokenLists[e]) > 0 || value != "" {
			texts = append(texts, strings.Join(f.tokenLists[e], " "))
		}
		if value != "" && readmodel.IsKeyword(value) {
			whole = append(whole, value)
		}
	}
	for _, list := range []struct {
		name   string
		values []string
	}{{f.Path + ".text", texts}, {f.Path + ".keyword", whole}} {
		if len(list.values) == 0 {
			continue
		}
		b = append(appendName(b, list.name), '[')
		for i, v := range list.values {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = jsontext.AppendQuote(b, v); err != nil {
				return b, err
			}
		}
		b = append(b, ']')
	}
	return b, nil
}

func appendNumber(b []byte, name string, n int64) []byte {
	if n == readmodel.SearchMissing {
		return b
	}
	return strconv.AppendInt(appendName(b, name), n, 10)
}

func appendName(b []byte, name string) []byte {
	return append(append(append(b, `,"`...), name...), `":`...)
}
