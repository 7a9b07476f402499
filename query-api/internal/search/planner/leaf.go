package planner

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"muster/query-api/internal/search/algebra"
	"muster/schemas/readmodel"
)

// Leaf is a node without child nodes, evaluated on people or, if Path is set, on the elements of that nested path.
type Leaf struct {
	Node algebra.Node
	Path string
}

// Key identifies a leaf: leaves with equal keys match the same.
func (l Leaf) Key() string {
	if t, ok := l.Node.(algebra.Term); ok { // nearly all are fields
		return l.Path + "\x00" + termKey(t.Field, t.Text)
	}
	c := newCompiler()
	var b strings.Builder
	add := func(part string) { // with its length: a part may contain any characters
		b.WriteString(strconv.Itoa(len(part)))
		b.WriteByte(':')
		b.WriteString(part)
	}
	add(l.Path)
	add(c.leaf(l, 0))
	if p, ok := l.Node.(algebra.Phrase); ok {
		add(strconv.Itoa(p.Slop)) // not part of the condition
	}
	for _, name := range slices.Sorted(maps.Keys(c.params)) {
		add(c.params[name])
	}
	for _, name := range slices.Sorted(maps.Keys(c.tables)) {
		for _, value := range c.tables[name] {
			add(value)
		}
	}
	return b.String()
}

// Group is equal for leaves that a statement reads together.
func (l Leaf) Group() string {
	if t, ok := l.repeated(); ok {
		return t.Field.Repeats()
	}
	return ""
}

// LeafStatements reads the matches of leaves in some parts of the table with a number of rows, including replaced ones,
// by at most n statements. The columns of their rows are the number of a leaf; the name of a part; the number of an
// element from 1, 0 for the person; the frequency, 1 if the leaf has none; the number of further elements that match,
// for nested fields evaluated on people; and, as groupBitmapState, the offsets of all rows of the part with these
// values. If there are several frequencies of a leaf for an offset, in any of the statements, the greatest counts, with
// its number of elements.
//
// Leaves that can be read together are one select: planning a select of a wide table takes longer than finding a term.
func LeafStatements(leaves []Leaf, parts []string, rows, n int) []Statement {
	c := newCompiler()
	names := c.strs(parts)
	var selects []string
	read := false
	groups := make(map[leafGroup][]int)
	repeats := make(map[string][]int) // terms with repeats, by the column
	counts := make(map[string]int)    // terms with repeats, by the field
	for i, l := range leaves {
		if t, ok := l.repeated(); ok {
			counts[t.Field.Name()]++
			if t.Field.IsText() || t.Field.Nested != "" {
				repeats[t.Field.Repeats()] = append(repeats[t.Field.Repeats()], i)
			}
		}
	}
	scans := func(i int) bool { return !HasDictionary(fieldOf(leaves[i].Node)) }
	for column, list := range repeats {
		if len(list) <= maxCounted && !slices.ContainsFunc(list, scans) {
			groups[leafGroup{occurrences, column}] = list
			delete(repeats, column)
		}
	}
	for i, l := range leaves {
		if _, phrase := l.Node.(algebra.Phrase); phrase {
			selects, read = append(selects, c.leaf(l, i)), true
			continue
		}
		group := l.group()
		if t, ok := l.repeated(); ok {
			if slices.Contains(groups[leafGroup{occurrences, t.Field.Repeats()}], i) {
				continue
			}
			if Scans(t.Field, counts[t.Field.Name()], rows) {
				group = leafGroup{read: scanned}
			}
		}
		groups[group] = append(groups[group], i)
	}
	for _, group := range slices.SortedFunc(maps.Keys(groups), leafGroup.compare) {
		list := groups[group]
		switch {
		case group.read == scanned:
			selects = append(selects, c.scanOf(leaves, list))
		case group.read == members:
			selects = append(selects, c.membersOf(leaves, list))
		case len(list) == 1:
			selects = append(selects, c.leaf(leaves[list[0]], list[0]))
		case group.read == occurrences:
			selects = append(selects, c.termsOf(leaves, list))
		default:
			selects = append(selects, c.elementsOf(leaves, list))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(repeats)) {
		selects = append(selects, c.repeatsOf(leaves, repeats[key]))
	}
	return c.statements(selects, names, read, n)
}

// statements distributes selects among at most n statements.
func (c *compiler) statements(selects []string, parts string, tokensRead bool, n int) []Statement {
	statements := make([]Statement, 0, n)
	for i := range min(n, len(selects)) {
		var some []string
		for k := i; k < len(selects); k += n {
			some = append(some, selects[k])
		}
		s := Statement{
			SQL:        strings.ReplaceAll(strings.Join(some, " UNION ALL "), partsMark, parts),
			Parameters: maps.Clone(c.params), Tables: maps.Clone(c.tables), TokensRead: tokensRead,
		}
		maps.DeleteFunc(s.Parameters, func(name, _ string) bool { return !strings.Contains(s.SQL, "{"+name+":") })
		maps.DeleteFunc(s.Tables, func(name string, _ []string) bool {
			return !strings.Contains(s.SQL, " FROM "+name+")")
		})
		statements = append(statements, s)
	}
	return statements
}

// leafGroup is what the leaves of a select have in common.
type leafGroup struct{ read, of string }

func (g leafGroup) compare(h leafGroup) int {
	return cmp.Or(strings.Compare(g.read, h.read), strings.Compare(g.of, h.of))
}

// The ways in which leaves are read.
const (
	members     = "members"     // of people who have any of them: as bitmaps
	scanned     = "scanned"     // in the values of a field: all terms at once
	occurrences = "occurrences" // of terms of one field, with their frequencies
	elements    = "elements"    // that match a leaf without frequencies
)

// group returns the group of a leaf that is no phrase. An index answers all leaves of a group, or none of them.
func (l Leaf) group() leafGroup {
	f := fieldOf(l.Node)
	of := ""
	term, isTerm := l.Node.(algebra.Term)
	_, isSet := l.Node.(algebra.Set)
	switch {
	case isTerm && (l.Path != "" || !hasRepeats(term.Field)):
		return leafGroup{occurrences, l.Path + "\x00" + f.Name()}
	case f.Linked || f.Identity: // in another table, or found by the key
		of = f.Name()
	case (isTerm || isSet) && HasDictionary(f):
		of = "indexed"
	case (isTerm || isSet) && (f.IsText() && f.Filtered || f.Keyword && f.KeywordFiltered):
		of = f.Name()
	case isTerm || isSet: // The filter of the table excludes them by object.
		of = f.Path[:strings.LastIndexByte(f.Path, '.')+1]
	}
	if l.Path != "" {
		return leafGroup{elements, l.Path + "\x00" + of}
	}
	return leafGroup{members, of}
}

// Repeated returns the field of a leaf that is a term whose frequencies are those of a column of repeats.
func (l Leaf) Repeated() (f algebra.Field, ok bool) {
	t, ok := l.repeated()
	return t.Field, ok
}

// Weight returns what a leaf adds to the duration of a statement: 8 for most, less for those of many terms of a field,
// which are read together, and more for long lists. terms are the numbers of terms with repeats, by field.
func (l Leaf) Weight(terms map[string]int, rows int) int {
	if f, ok := l.Repeated(); ok && Scans(f, terms[f.Name()], rows) {
		return 1
	}
	if s, ok := l.Node.(algebra.Set); ok {
		return 8 + len(s.Values)/32
	}
	return 8
}

// repeated returns the term of a leaf whose frequencies are those of a column of repeats.
func (l Leaf) repeated() (t algebra.Term, ok bool) {
	t, ok = l.Node.(algebra.Term)
	return t, ok && l.Path == "" && hasRepeats(t.Field)
}

// Scans reports whether a number of terms of a field are read by scanning its values: a condition takes 0.6 ms to plan,
// as long as a scan of 4,096 short values. Fields with repeats of their own are long. Without an index, conditions
// scan, too.
func Scans(f algebra.Field, terms, rows int) bool {
	return terms > 4 && (!HasDictionary(f) || !f.Counted && terms*4096 >= rows)
}

// hasRepeats reports whether the frequencies of a field's terms are those of a column of repeats.
func hasRepeats(f algebra.Field) bool {
	return f.IsString() && f.Subfield == "" && !f.Linked && !f.Identity
}

// membersOf reads which people match several leaves without frequencies, or with repeats.
func (c *compiler) membersOf(leaves []Leaf, numbers []int) string {
	root := &scope{}
	conditions, states := make([]string, len(numbers)), make([]string, len(numbers))
	for k, i := range numbers {
		condition := c.match(leaves[i].Node, root)
		states[k] = "(toUInt16(" + strconv.Itoa(i) + "), unhex(hex(groupBitmapStateIf(toUInt32(_part_offset), " +
			condition + "))))"
		switch conditions[k] = yes; leaves[i].Node.(type) {
		case algebra.Term, algebra.Set: // Others are not answered by an index.
			conditions[k] = condition
		}
	}
	return "SELECT u.1 AS leaf, part, toUInt32(0) AS element, toFloat64(1) AS frequency, toUInt32(0) AS spread, " +
		"u.2 FROM (SELECT toString(_part) AS part, arrayJoin([" + strings.Join(states, ", ") + "]) AS u" +
		rowsOfParts(leaves[numbers[0]].Node, or(conditions...)) + " GROUP BY part)"
}

// maxCounted is the maximum number of terms whose repeats are counted one by one, in the select that finds the terms.
const maxCounted = 4

// maxCandidateTerms is the maximum number of terms whose people are found by an index before their repeats are read:
// each takes 0.6 ms to plan.
const maxCandidateTerms = 16

// repeatsOf reads the frequencies above 1 of terms in one column of repeats, and in how many further elements they are.
func (c *compiler) repeatsOf(leaves []Leaf, numbers []int) string {
	root := &scope{}
	column := ""
	var conditions, hashes, texts, from, to []string
	for _, i := range numbers {
		t := leaves[i].Node.(algebra.Term) //nolint:forcetypeassert // see LeafStatements
		condition := c.match(t, root)
		if condition == no {
			continue
		}
		if !HasDictionary(t.Field) || len(numbers) > maxCandidateTerms {
			condition = yes
		}
		column = t.Field.Repeats()
		conditions = append(conditions, condition)
		hash := t.Field.TermHash(t.Text, t.Field.Keyword)
		from, to = append(from, strconv.FormatUint(hash, 10)), append(to, strconv.Itoa(i))
		hashes = append(hashes, strconv.FormatUint(hash, 10), strconv.FormatUint(hash|readmodel.NewElement, 10))
		if t.Field.IsText() {
			texts = append(texts, strconv.Itoa(i))
		}
	}
	list := func(kind string, values []string) string {
		return c.param("Array("+kind+")", "["+strings.Join(values, ",")+"]")
	}
	if len(hashes) == 0 { // no term can match
		return c.membersOf(leaves, numbers)
	}
	return "SELECT leaf, part, toUInt32(0) AS element, toFloat64(if(leaf IN " + list("UInt16", texts) +
		", 1 + n, 1)) AS frequency, toUInt32(s) AS spread, unhex(hex(groupBitmapState(row))) FROM (SELECT " +
		"transform(bitAnd(h, " + strconv.FormatUint(math.MaxUint64^readmodel.NewElement, 10) + "), " +
		list("UInt64", from) + ", " + list("UInt16", to) + ", toUInt16(0)) AS leaf, toString(_part) AS part, " +
		"toUInt32(_part_offset) AS row, count() AS n, sum(bitAnd(h, " + strconv.Itoa(readmodel.NewElement) +
		")) AS s FROM (SELECT _part, _part_offset, arrayJoin(arrayFilter(h -> h IN " + list("UInt64", hashes) + ", " +
		column + ")) AS h" + rowsOfParts(leaves[numbers[0]].Node, or(conditions...)) +
		") GROUP BY leaf, part, row) GROUP BY leaf, part, frequency, spread"
}

// scanOf reads which people have several terms, from the values of their fields.
func (c *compiler) scanOf(leaves []Leaf, numbers []int) string {
	fields := make(map[string]algebra.Field)
	texts, leafNumbers := make(map[string][]string), make(map[string][]string)
	for _, i := range numbers {
		t := leaves[i].Node.(algebra.Term) //nolint:forcetypeassert // see LeafStatements
		if c.match(t, &scope{}) == no {
			continue
		}
		name := t.Field.Name()
		fields[name], texts[name] = t.Field, append(texts[name], t.Text)
		leafNumbers[name] = append(leafNumbers[name], strconv.Itoa(i))
	}
	if len(fields) == 0 { // no term can match
		return c.membersOf(leaves, numbers)
	}
	var lists []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		lists = append(lists, "arrayFilter(n -> n != toUInt16(65535), arrayMap(v -> transform(v, "+
			c.param("Array(String)", quoteList(texts[name]))+", "+
			c.param("Array(UInt16)", "["+strings.Join(leafNumbers[name], ",")+"]")+", toUInt16(65535)), "+
			c.values(fields[name])+"))")
	}
	return "SELECT leaf, part, toUInt32(0) AS element, toFloat64(1) AS frequency, toUInt32(0) AS spread, " +
		"unhex(hex(groupBitmapState(row))) FROM (SELECT toString(_part) AS part, toUInt32(_part_offset) AS row, " +
		"arrayJoin(arrayConcat(" + strings.Join(lists, ", ") + ")) AS leaf" +
		rowsOfParts(leaves[numbers[0]].Node, yes) + ") GROUP BY leaf, part"
}

// termsOf reads several terms of one field with their frequencies: its columns are read once.
func (c *compiler) termsOf(leaves []Leaf, numbers []int) string {
	root, inner := &scope{}, &scope{path: leaves[numbers[0]].Path}
	var pairs, conditions []string
	for _, i := range numbers {
		n := leaves[i].Node
		condition := c.match(n, root)
		conditions = append(conditions, condition)
		if condition == no {
			continue
		}
		frequency, spread := c.frequencies(n, inner)
		value := "toFloat64(" + frequency + ")"
		switch t := n.(algebra.Term); { //nolint:forcetypeassert // see LeafStatements
		case !inner.nested() && (!t.Field.IsText() || hasRepeats(t.Field)):
			value = "if(" + condition + ", " + value + ", 0.)"
		case !t.Field.IsText():
			value = "toFloat64(" + c.match(n, inner) + ")"
		} // that of a text is 0 if it does not match
		pairs = append(pairs, "(toUInt16("+strconv.Itoa(i)+"), "+value+", toUInt32("+spread+"))")
	}
	list, where := "["+strings.Join(pairs, ", ")+"]", or(conditions...)
	if len(pairs) == 0 {
		list = "[(toUInt16(0), 0., toUInt32(0))]"
	}
	element, joined := "toUInt32(0)", "arrayJoin(arrayFilter(x -> x.2 > 0, "+list+")) AS u"
	if inner.nested() {
		element = "number"
		joined = "arrayJoin(" + inner.numbered(list, "1") +
			") AS e, e.1 AS number, arrayJoin(arrayFilter(x -> x.2 > 0, e.2)) AS u"
	}
	return "SELECT u.1 AS leaf, toString(_part) AS part, toUInt32(" + element +
		") AS element, u.2 AS frequency, u.3 AS spread, " + rowSet +
		" FROM (SELECT _part, _part_offset, " + joined + rowsOfParts(leaves[numbers[0]].Node, where) +
		") GROUP BY part, leaf, element, frequency, spread"
}

// elementsOf reads which elements of a path match several leaves without frequencies.
func (c *compiler) elementsOf(leaves []Leaf, numbers []int) string {
	root, inner := &scope{}, &scope{path: leaves[numbers[0]].Path}
	pairs := make([]string, len(numbers))
	conditions := make([]string, len(numbers))
	for k, i := range numbers {
		n := leaves[i].Node
		conditions[k] = c.necessary(n, root)
		pairs[k] = "(toUInt16(" + strconv.Itoa(i) + "), toUInt8(" + c.match(n, inner) + "))"
	}
	return "SELECT u.1 AS leaf, toString(_part) AS part, toUInt32(number) AS element, toFloat64(1) AS frequency, " +
		"toUInt32(0) AS spread, " + rowSet + " FROM (SELECT _part, _part_offset, arrayJoin(" +
		inner.numbered("["+strings.Join(pairs, ", ")+"]", "1") + ") AS e, e.1 AS number, arrayJoin(arrayFilter(" +
		"x -> x.2 > 0, e.2)) AS u" + rowsOfParts(leaves[numbers[0]].Node, or(conditions...)) +
		") GROUP BY part, leaf, element"
}

// partsMark is replaced by the names of parts when a statement is finished.
const partsMark = "{parts}"

// rowsOfParts is rowsOf with the field of a leaf and partsMark.
func rowsOfParts(leaf algebra.Node, condition string) string {
	return rowsOf(fieldOf(leaf).SearchField, "_part IN "+partsMark, condition)
}

// rowSet is the aggregate of the offsets of rows.
const rowSet = "unhex(hex(groupBitmapState(toUInt32(_part_offset))))"

func (c *compiler) leaf(l Leaf, number int) string {
	head := "SELECT toUInt16(" + strconv.Itoa(number) + ") AS leaf, toString(_part) AS part, "
	if l.Path == "" {
		root := &scope{}
		condition := c.match(l.Node, root)
		frequency, spread := c.frequencies(l.Node, root)
		return head + "toUInt32(0) AS element, toFloat64(" + frequency + ") AS frequency, toUInt32(" + spread +
			") AS spread, " + rowSet + rowsOfParts(l.Node, condition) + " GROUP BY part, frequency, spread"
	}
	inner := &scope{path: l.Path}
	condition := c.match(l.Node, inner)
	frequency, _ := c.frequencies(l.Node, inner)
	value := "if(" + condition + ", toFloat64(" + frequency + "), 0.)"
	if t, ok := l.Node.(algebra.Term); ok && t.Field.IsText() && condition != no {
		value = "toFloat64(" + frequency + ")" // 0 if it does not match
	}
	return head + "toUInt32(u.1) AS element, u.2 AS frequency, toUInt32(0) AS spread, " + rowSet +
		" FROM (SELECT _part, _part_offset, arrayJoin(" + inner.numbered(value, "x.2 > 0") + ") AS u" +
		rowsOfParts(l.Node, c.necessary(l.Node, &scope{})) + ") GROUP BY part, element, frequency"
}

// frequencies returns expressions of the frequency of a leaf where it matches, and of the number of further elements
// with it.
func (c *compiler) frequencies(n algebra.Node, s *scope) (frequency, spread string) {
	frequency, spread = yes, no
	switch n := n.(type) {
	case algebra.Phrase:
		if len(n.Terms) > 1 || len(n.Terms[0]) > 1 {
			frequency = c.frequency(n, s)
		}
	case algebra.Term:
		f := n.Field
		switch {
		case hasRepeats(f) && !s.nested():
			if !f.IsText() && f.Nested == "" {
				break
			}
			hash := f.TermHash(n.Text, f.Keyword)
			first := "countEqual(" + f.Repeats() + ", " + strconv.FormatUint(hash|readmodel.NewElement, 10) + ")"
			if f.IsText() {
				frequency = "1 + countEqual(" + f.Repeats() + ", " + strconv.FormatUint(hash, 10) + ") + " + first
			}
			if f.Nested != "" {
				spread = first
			}
		case f.IsText():
			frequency = "countEqual(" + c.tokens(f, s) + ", " + c.str(n.Text) + ")"
			if s.many(f) {
				spread = "arrayCount(e -> has(e, " + c.str(n.Text) + "), " + c.tokenLists(f) + ") - 1"
			}
		case s.many(f) && f.Type == readmodel.SearchBoolean:
			spread = "countEqual(" + f.Column + ", " + c.boolean01(n.Text) + ") - 1"
		case s.many(f):
			spread = "countEqual(" + f.Column + ", " + c.str(n.Text) + ") - 1"
		}
	}
	return frequency, spread
}

// boolean01 returns a boolean's term as stored in its column.
func (*compiler) boolean01(term string) string {
	if term == "T" {
		return yes
	}
	return no
}

// PeopleStatement reads the people of a part in order. Its rows are the offset, profile_hash, and whether the record is
// deleted.
func PeopleStatement(part string) Statement {
	return ofPart("toUInt32(_part_offset), "+hashColumn+", toUInt8(deleted)", part)
}

// IdentitiesStatement reads what identifies the versions of the people of a part, in order: offset, a second hash of
// the profile ID, and the two halves of ver, the greatest of which counts.
func IdentitiesStatement(part string) Statement {
	return ofPart(
		"toUInt32(_part_offset), sipHash64("+idColumn+"), toInt64(bitShiftRight(ver, 64)), toUInt64(bitAnd(ver, "+
			"18446744073709551615))",
		part,
	)
}

// ValuesStatement reads a column of a part in order. Its rows are the offset and the value, a String or an Int64. A
// nested field has a row for each element.
func ValuesStatement(f algebra.Field, part string) Statement {
	value := func(v string) string {
		if !f.IsString() {
			return "toInt64(" + v + ")"
		}
		return "if(" + isKeyword(v) + ", " + v + ", '')"
	}
	expression := value(f.Column)
	if f.Nested != "" {
		expression = "arrayJoin(arrayMap(v -> " + value("v") + ", " + f.Column + "))"
	}
	if !f.Linked {
		return ofPart("toUInt32(_part_offset), "+expression, part)
	}
	c := newCompiler()
	return Statement{
		SQL: "SELECT toUInt32(_part_offset), " + expression + " FROM (SELECT _part_offset, " + f.Column +
			rowsOf(f.SearchField, "_part = "+c.str(part), yes) + " ORDER BY _part_offset)",
		Parameters: c.params, OneThread: true,
	}
}

// SharedStatement reads the IDs of the documents of a part with one of some hashes. Its rows are the offset and the ID.
func SharedStatement(hashes []uint64, part string) Statement {
	c := newCompiler()
	list := make([]string, len(hashes))
	for i, h := range hashes {
		list[i] = strconv.FormatUint(h, 10)
	}
	return Statement{
		SQL: "SELECT toUInt32(_part_offset), " + idColumn + " FROM " + table + " WHERE _part = " + c.str(part) +
			" AND " + hashColumn + " IN " + c.param("Array(UInt64)", "["+strings.Join(list, ",")+"]"),
		Parameters: c.params,
	}
}

// PhraseStatement reads the tokens of the people with the words of a phrase, in some parts. Its rows are a part, the
// offset, and a list of tokens for each element, one empty token if its text has no words, or one list if the field is
// not nested.
func PhraseStatement(n algebra.Phrase, parts []string) Statement {
	c := newCompiler()
	// A text without words counts in the positions of later ones; no text does not.
	tokens := "arrayMap((e, v) -> if(empty(e) AND v != '', [''], e), " + c.tokenLists(n.Field) + ", " +
		n.Field.Column + ")"
	if n.Field.Nested == "" {
		tokens = "[" + c.tokens(n.Field, &scope{}) + "]"
	}
	return Statement{
		SQL: "SELECT toString(_part), toUInt32(_part_offset), " + tokens +
			rowsOf(n.Field.SearchField, "_part IN "+c.strs(parts), c.candidates(n, &scope{})),
		Parameters: c.params, Tables: c.tables,
	}
}

// FreshenedStatement reads the people of a part that have a version newer than their content. Its rows are the offset
// and updated_at by that version.
func FreshenedStatement(part string) Statement {
	c := newCompiler()
	return Statement{SQL: "SELECT toUInt32(row), " + seenUpdatedAt +
		" FROM (SELECT _part_offset AS row, " + hashColumn + ", content_hash, version FROM " + table +
		" WHERE _part = " +
		c.str(part) +
		") AS people INNER JOIN " + seenVersions + " AS seen ON " + hashColumn + " = seen_key AND content_hash = " +
		"seen_content WHERE seen_version > version", Parameters: c.params}
}

// ReadsUpdatedAt reports whether a field is the one that newer versions change.
func ReadsUpdatedAt(f algebra.Field) bool { return f.Path == updatedAt }

func ofPart(columns, part string) Statement {
	c := newCompiler()
	return Statement{
		SQL:        "SELECT " + columns + " FROM " + table + " WHERE _part = " + c.str(part),
		Parameters: c.params,
		OneThread:  true,
	}
}

// Text is a text field of people or of the elements of a nested path.
type Text struct {
	Field algebra.Field
	Path  string
}

// LengthsStatement reads the lengths of texts in some parts, in words. Its rows are the number of a text, a part, the
// number of an element, 0 for the person, a length above 0, and the rows of the part with that length.
func LengthsStatement(texts []Text, parts []string) Statement {
	c := newCompiler()
	names := c.strs(parts)
	selects := make([]string, len(texts))
	for i, t := range texts {
		head := "SELECT toUInt16(" + strconv.Itoa(i) + ") AS text, toString(_part) AS part, "
		sizes := sizes(t.Field)
		if t.Path != "" {
			selects[i] = head + "toUInt32(u.1) AS element, toUInt32(u.2) AS words, " + rowSet +
				" FROM (SELECT _part, _part_offset, arrayJoin(arrayFilter(x -> x.2 > 0, arrayMap((i, n) -> (i, n), " +
				"arrayEnumerate(" + sizes + "), " + sizes + "))) AS u" +
				rowsOf(t.Field.SearchField, "_part IN "+names, yes) + ") GROUP BY part, element, words"
			continue
		}
		words := sizes
		if t.Field.Nested != "" {
			words = "arraySum(" + sizes + ")"
		}
		selects[i] = head + "toUInt32(0) AS element, toUInt32(" + words + ") AS words, " + rowSet +
			rowsOf(t.Field.SearchField, "_part IN "+names, yes) + " AND words > 0 GROUP BY part, words"
	}
	return Statement{SQL: strings.Join(selects, " UNION ALL "), Parameters: c.params}
}

// ElementsStatement reads how many elements of a nested path the people of some parts have. Its rows are a part, a
// number above 0, and the rows of the part with that number.
func ElementsStatement(of *readmodel.SearchCollection, path string, parts []string) Statement {
	c := newCompiler()
	column := ""
	for _, f := range of.Fields {
		if f.Nested == path {
			column = f.Column
			break
		}
	}
	return Statement{SQL: "SELECT toString(_part) AS part, toUInt32(length(" + column + ")) AS elements, " + rowSet +
		" FROM " + table + " WHERE _part IN " + c.strs(parts) +
		" AND elements > 0 GROUP BY part, elements", Parameters: c.params}
}
