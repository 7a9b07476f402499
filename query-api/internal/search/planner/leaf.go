package planner

import (
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
	if t, ok := l.Node.(algebra.Term); ok && l.Path == "" && hasRepeats(t.Field) {
		return t.Field.Repeats()
	}
	return ""
}

// LeafStatement reads the matches of leaves in some parts of the table, including replaced rows. The columns of its
// rows are the number of a leaf; the name of a part; the number of an element from 1, 0 for the person; the frequency,
// 1 if the leaf has none; the number of further elements that match, for nested fields evaluated on people; and, as
// groupBitmapState, the offsets of all rows of the part with these values. If there are several frequencies of a leaf
// for an offset, the greatest counts, with its number of elements.
func LeafStatement(leaves []Leaf, parts []string) Statement {
	c := newCompiler()
	names := c.strs(parts)
	var selects []string
	read := false
	terms := make(map[string][]int)    // the leaves that are terms, by what termsOf reads together
	var indexed []int                  // of them, those that an index answers, but for their repeats
	members := make(map[string][]int)  // the others, by field or, if a filter of the table excludes them, by object
	repeats := make(map[string][]int)  // terms with repeats, by the column
	patterns := make(map[string][]int) // the leaves that are patterns, by path
	for i, l := range leaves {
		if p, ok := l.Node.(algebra.Pattern); ok {
			key := l.Path
			if p.Field.Linked { // Its columns are in another table.
				key += "\x00" + p.Field.Name()
			}
			patterns[key] = append(patterns[key], i)
			continue
		}
		if t, ok := l.Node.(algebra.Term); ok {
			switch {
			case l.Path != "" || !hasRepeats(t.Field):
				key := l.Path + "\x00" + t.Field.Name()
				terms[key] = append(terms[key], i)
				continue
			case HasDictionary(t.Field):
				indexed = append(indexed, i)
			default:
				key := t.Field.Name()
				if t.Field.IsText() && !t.Field.Filtered || t.Field.Keyword && !t.Field.KeywordFiltered {
					key = t.Field.Path[:strings.LastIndexByte(t.Field.Path, '.')+1]
				}
				members[key] = append(members[key], i)
			}
			if t.Field.IsText() || t.Field.Nested != "" {
				repeats[t.Field.Repeats()] = append(repeats[t.Field.Repeats()], i)
			}
			continue
		}
		selects = append(selects, c.leaf(l, i))
		_, phrase := l.Node.(algebra.Phrase)
		read = read || phrase
	}
	for _, key := range slices.Sorted(maps.Keys(terms)) {
		if list := terms[key]; len(list) > 1 {
			selects = append(selects, c.termsOf(leaves, list))
		} else {
			selects = append(selects, c.leaf(leaves[list[0]], list[0]))
		}
	}
	if len(indexed) > 0 {
		selects = append(selects, c.membersOf(leaves, indexed))
	}
	for _, key := range slices.Sorted(maps.Keys(members)) {
		selects = append(selects, c.membersOf(leaves, members[key]))
	}
	for _, key := range slices.Sorted(maps.Keys(repeats)) {
		selects = append(selects, c.repeatsOf(leaves, repeats[key]))
	}
	for _, key := range slices.Sorted(maps.Keys(patterns)) {
		selects = append(selects, c.patternsOf(leaves, patterns[key]))
	}
	sql := strings.ReplaceAll(strings.Join(selects, " UNION ALL "), partsMark, names)
	return Statement{SQL: sql, Parameters: c.params, Tables: c.tables, TokensRead: read}
}

// hasRepeats reports whether the frequencies of a field's terms are those of a column of repeats.
func hasRepeats(f algebra.Field) bool {
	return f.IsString() && f.Subfield == "" && !f.Linked && !f.Identity
}

// membersOf reads which people have several terms, in one select: planning a select of a wide table takes longer than
// finding a term. An index answers all of them, or they are of one field or object.
func (c *compiler) membersOf(leaves []Leaf, numbers []int) string {
	root := &scope{}
	conditions, states := make([]string, len(numbers)), make([]string, len(numbers))
	for k, i := range numbers {
		conditions[k] = c.match(leaves[i].Node, root)
		states[k] = "(toUInt16(" + strconv.Itoa(i) + "), unhex(hex(groupBitmapStateIf(toUInt32(_part_offset), " +
			conditions[k] + "))))"
	}
	return "SELECT u.1 AS leaf, part, toUInt32(0) AS element, toFloat64(1) AS frequency, toUInt32(0) AS spread, " +
		"u.2 FROM (SELECT toString(_part) AS part, arrayJoin([" + strings.Join(states, ", ") + "]) AS u" +
		rowsOfParts(leaves[numbers[0]].Node, or(conditions...)) + " GROUP BY part)"
}

// repeatsOf reads the frequencies above 1 of terms in one column of repeats, and in how many further elements they are.
func (c *compiler) repeatsOf(leaves []Leaf, numbers []int) string {
	root := &scope{}
	column := ""
	var conditions, hashes, texts, from, to []string
	for _, i := range numbers {
		t := leaves[i].Node.(algebra.Term) //nolint:forcetypeassert // see LeafStatement
		condition := yes
		if HasDictionary(t.Field) {
			condition = c.match(t, root)
		}
		if condition == no {
			continue
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

// termsOf reads several terms in one select, of one field: its columns are read once, and planning a select of a wide
// table takes longer than finding a term.
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
		switch t := n.(algebra.Term); { //nolint:forcetypeassert // see LeafStatement
		case t.Field.IsText(): // 0 if it does not match
		case !inner.nested():
			value = "if(" + condition + ", " + value + ", 0.)"
		default:
			value = "toFloat64(" + c.match(n, inner) + ")"
		}
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
		") AS element, u.2 AS frequency, u.3 AS spread, " + members +
		" FROM (SELECT _part, _part_offset, " + joined + rowsOfParts(leaves[numbers[0]].Node, where) +
		") GROUP BY part, leaf, element, frequency, spread"
}

// patternsOf reads several patterns of one path in one select: in small tables, planning a select of a wide table takes
// longer than matching a pattern.
func (c *compiler) patternsOf(leaves []Leaf, numbers []int) string {
	root, inner := &scope{}, &scope{path: leaves[numbers[0]].Path}
	pairs := make([]string, len(numbers))
	conditions := make([]string, len(numbers))
	for k, i := range numbers {
		n := leaves[i].Node
		conditions[k] = c.necessary(n, root)
		pairs[k] = "(toUInt16(" + strconv.Itoa(i) + "), toUInt8(" + c.match(n, inner) + "))"
	}
	list := "[" + strings.Join(pairs, ", ") + "]"
	element, joined := "toUInt32(0)", "arrayJoin(arrayFilter(x -> x.2 > 0, "+list+")) AS u"
	if inner.nested() {
		element = "number"
		joined = "arrayJoin(" + inner.numbered(list, "1") +
			") AS e, e.1 AS number, arrayJoin(arrayFilter(x -> x.2 > 0, e.2)) AS u"
	}
	return "SELECT u.1 AS leaf, toString(_part) AS part, toUInt32(" + element +
		") AS element, toFloat64(1) AS frequency, toUInt32(0) AS spread, " + members +
		" FROM (SELECT _part, _part_offset, " + joined + rowsOfParts(leaves[numbers[0]].Node, or(conditions...)) +
		") GROUP BY part, leaf, element"
}

// partsMark is replaced by the names of parts when a statement is finished.
const partsMark = "{parts}"

// rowsOfParts is rowsOf with the field of a leaf and partsMark.
func rowsOfParts(leaf algebra.Node, condition string) string {
	return rowsOf(fieldOf(leaf).SearchField, "_part IN "+partsMark, condition)
}

// members is the aggregate of the offsets of rows.
const members = "unhex(hex(groupBitmapState(toUInt32(_part_offset))))"

func (c *compiler) leaf(l Leaf, number int) string {
	head := "SELECT toUInt16(" + strconv.Itoa(number) + ") AS leaf, toString(_part) AS part, "
	if l.Path == "" {
		root := &scope{}
		condition := c.match(l.Node, root)
		frequency, spread := c.frequencies(l.Node, root)
		return head + "toUInt32(0) AS element, toFloat64(" + frequency + ") AS frequency, toUInt32(" + spread +
			") AS spread, " + members + rowsOfParts(l.Node, condition) + " GROUP BY part, frequency, spread"
	}
	inner := &scope{path: l.Path}
	condition := c.match(l.Node, inner)
	frequency, _ := c.frequencies(l.Node, inner)
	value := "if(" + condition + ", toFloat64(" + frequency + "), 0.)"
	if t, ok := l.Node.(algebra.Term); ok && t.Field.IsText() && condition != no {
		value = "toFloat64(" + frequency + ")" // 0 if it does not match
	}
	return head + "toUInt32(u.1) AS element, u.2 AS frequency, toUInt32(0) AS spread, " + members +
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
			selects[i] = head + "toUInt32(u.1) AS element, toUInt32(u.2) AS words, " + members +
				" FROM (SELECT _part, _part_offset, arrayJoin(arrayFilter(x -> x.2 > 0, arrayMap((i, n) -> (i, n), " +
				"arrayEnumerate(" + sizes + "), " + sizes + "))) AS u" +
				rowsOf(t.Field.SearchField, "_part IN "+names, yes) + ") GROUP BY part, element, words"
			continue
		}
		words := sizes
		if t.Field.Nested != "" {
			words = "arraySum(" + sizes + ")"
		}
		selects[i] = head + "toUInt32(0) AS element, toUInt32(" + words + ") AS words, " + members +
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
	return Statement{SQL: "SELECT toString(_part) AS part, toUInt32(length(" + column + ")) AS elements, " + members +
		" FROM " + table + " WHERE _part IN " + c.strs(parts) +
		" AND elements > 0 GROUP BY part, elements", Parameters: c.params}
}
