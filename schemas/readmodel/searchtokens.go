package readmodel

import (
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/schemas/analysis"
)

// derivedColumns are the columns of a text in search_people other than the text (SearchField). The client computes
// them: as DEFAULT expressions they cost 60 ms per insert and 2 ms per query (deploy/docs/benchmarks.md).
type derivedColumns struct {
	field   SearchField
	tokens  tokenLists
	repeats *hashLists // of the field, and perhaps of others
}

// columns returns the columns of a field, without its repeats.
func (d *derivedColumns) columns() []field {
	kind := "Array(String)"
	if d.tokens.nested = d.field.Nested != ""; d.tokens.nested {
		kind = "Array(Array(String))"
	}
	return []field{{d.field.Tokens(), kind, &d.tokens}}
}

// deriver fills the derived columns row by row.
type deriver struct {
	found []analysis.Token
	words []word // distinct words of the current row, or distinct values
	index map[string]int
}

// word is a token and the last element that had it.
type word struct {
	text    string
	element int
}

// text adds the row of a root field and returns its number of tokens.
func (d *deriver) text(c *derivedColumns, value string) int {
	n := d.element(c, value, 0)
	c.tokens.endRow(n)
	d.forget()
	return n
}

// element adds the tokens of a text and returns their number.
func (d *deriver) element(c *derivedColumns, value string, element int) int {
	if value == "" {
		return 0
	}
	d.found = analysis.Analyze(d.found[:0], value)
	for _, t := range d.found {
		c.tokens.add(t.Text)
		d.count(c, t.Text, element, false)
	}
	n := len(d.found)
	clear(d.found) // Releases the value.
	return n
}

// elements adds the row of a nested field, and returns the numbers of tokens of its elements.
func (d *deriver) elements(c *derivedColumns, values []string, lengths []int) []int {
	for i, v := range values {
		n := d.element(c, v, i)
		c.tokens.endElement(n)
		lengths = append(lengths, n)
	}
	c.tokens.endRow(len(values))
	d.forget()
	for i, v := range values {
		if v != "" && IsKeyword(v) {
			d.count(c, v, i, true)
		}
	}
	d.forget()
	return lengths
}

// count counts a token of an element, or a whole value.
func (d *deriver) count(c *derivedColumns, term string, element int, whole bool) {
	repeated, isNew := d.countWord(term, element)
	if !repeated {
		return
	}
	hash := c.field.TermHash(term, whole)
	if isNew {
		hash |= NewElement
	}
	c.repeats.hashes = append(c.repeats.hashes, hash)
}

// maxLinearWords is the maximum number of words for linear search; more are indexed.
const maxLinearWords = 16

// countWord records a word of an element. repeated: the row had it before; isNew: in other elements only.
func (d *deriver) countWord(token string, element int) (repeated, isNew bool) {
	at := -1
	if len(d.words) <= maxLinearWords {
		for i := range d.words {
			if d.words[i].text == token {
				at = i
				break
			}
		}
	} else if i, ok := d.index[token]; ok {
		at = i
	}
	if at >= 0 {
		w := &d.words[at]
		isNew = w.element != element
		w.element = element
		return true, isNew
	}
	d.words = append(d.words, word{text: token, element: element})
	switch n := len(d.words); {
	case n == maxLinearWords+1:
		if d.index == nil {
			d.index = make(map[string]int)
		}
		for i := range d.words {
			d.index[d.words[i].text] = i
		}
	case n > maxLinearWords:
		d.index[token] = n - 1
	}
	return false, false
}

// forget forgets the words.
func (d *deriver) forget() {
	if len(d.words) > maxLinearWords {
		clear(d.index)
	}
	clear(d.words)
	d.words = d.words[:0]
}

// hashLists is a column of lists of hashes.
type hashLists struct {
	name   string
	hashes []uint64
	ends   []int // of each row
}

func (l *hashLists) endRow() { l.ends = append(l.ends, len(l.hashes)) }

func (l *hashLists) reset() { l.hashes, l.ends = l.hashes[:0], l.ends[:0] }

// appendTo appends pointers, which need no allocation each.
func (l *hashLists) appendTo(dst driver.BatchColumn) error {
	pointers := make([]*uint64, len(l.hashes))
	for i := range l.hashes {
		pointers[i] = &l.hashes[i]
	}
	var none any = []*uint64(nil) // Allocated once: many lists are empty.
	begin := 0
	for _, end := range l.ends {
		list := none
		if end > begin {
			list = pointers[begin:end]
		}
		if err := dst.AppendRow(list); err != nil {
			return err
		}
		begin = end
	}
	return nil
}

// tokenLists is a column of token lists, or of lists of such lists, in one buffer.
type tokenLists struct {
	arena    []byte
	ends     []int // of each token
	elements []int // tokens of each element, if nested
	rows     []int // tokens of each row, or elements if nested
	nested   bool
}

func (l *tokenLists) add(token string) {
	l.arena = append(l.arena, token...)
	l.ends = append(l.ends, len(l.arena))
}

func (l *tokenLists) endElement(tokens int) { l.elements = append(l.elements, tokens) }

func (l *tokenLists) endRow(n int) { l.rows = append(l.rows, n) }

// bytes returns the buffer, for reserveCapacity.
func (l *tokenLists) bytes() *[]byte { return &l.arena }

func (l *tokenLists) reset() {
	if cap(l.arena) > maxKeptArena {
		l.arena, l.ends = nil, nil
	}
	l.arena, l.ends, l.elements, l.rows = l.arena[:0], l.ends[:0], l.elements[:0], l.rows[:0]
}

func (l *tokenLists) appendTo(dst driver.BatchColumn) error {
	r := tokenReader{text: string(l.arena), ends: l.ends}
	if l.nested {
		return l.appendNested(dst, &r)
	}
	var none any = []*string(nil) // Allocated once: many lists are empty.
	for _, n := range l.rows {
		list := none
		if n > 0 {
			list = r.next(0, n)
		}
		if err := dst.AppendRow(list); err != nil {
			return err
		}
	}
	return nil
}

func (l *tokenLists) appendNested(dst driver.BatchColumn, r *tokenReader) error {
	var lists [][]*string
	var boxed any = &lists
	element := 0
	for _, n := range l.rows {
		lists = lists[:0]
		total := 0
		for _, tokens := range l.elements[element : element+n] {
			lists = append(lists, r.next(total, tokens))
			total += tokens
		}
		element += n
		if err := dst.AppendRow(boxed); err != nil {
			return err
		}
	}
	return nil
}

// tokenReader returns tokens as pointers to reused strings: appending those to a list column needs no
// allocation per string.
type tokenReader struct {
	text  string
	ends  []int
	token int // next
	begin int // of it
	chunk []string
	list  []*string
}

// next reads n tokens into the strings from index at on. Lists returned before stay valid if they use strings
// before at.
func (r *tokenReader) next(at, n int) []*string {
	for len(r.list) < at+n {
		if len(r.chunk) == 0 {
			r.chunk = make([]string, 256)
		}
		r.list = append(r.list, &r.chunk[0])
		r.chunk = r.chunk[1:]
	}
	list := r.list[at : at+n : at+n]
	for _, s := range list {
		end := r.ends[r.token]
		*s = r.text[r.begin:end]
		r.begin = end
		r.token++
	}
	return list
}
