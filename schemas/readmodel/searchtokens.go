package readmodel

import (
	"strconv"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/schemas/analysis"
)

// derivedColumns are the columns of a text in search_people other than its whole value (SearchField). The
// client computes them: as DEFAULT expressions, 130 of them cost 60 ms per insert and 2 ms per query
// (deploy/docs/benchmarks.md).
type derivedColumns struct {
	tokens          tokenLists
	repeats, spread tokenLists
	times           tokenLists
	length, values  column[uint32]
	counted         bool
}

// columns returns the columns of a field.
func (d *derivedColumns) columns(f SearchField) []field {
	own := []field{
		{f.Tokens(), "Array(String)", &d.tokens},
		{f.Repeats(), "Array(String)", &d.repeats},
		{f.Length(), "UInt32", &d.length},
	}
	if d.counted {
		own = append(own, field{f.Times(), "Array(String)", &d.times})
	}
	if f.Nested == "" {
		return own
	}
	own[0].kind = "Array(Array(String))"
	d.tokens.nested = true
	return append(own, field{f.Spread(), "Array(String)", &d.spread}, field{f.Values(), "UInt32", &d.values})
}

// deriver fills the derived columns row by row.
type deriver struct {
	found []analysis.Token
	words []word // distinct words of the current row
	index map[string]int
}

// word is a token, the last element that had it, and its number of repeats.
type word struct {
	text    string
	element int
	repeats uint32
}

// text adds the row of a root field.
func (d *deriver) text(c *derivedColumns, value string) {
	if value == "" {
		c.tokens.endRow(0)
		c.repeats.endRow(0)
		c.length.add(0)
		d.endRow(c)
		return
	}
	tokens, repeats := c.tokens.len(), c.repeats.len()
	n := d.element(c, value, 0)
	c.tokens.endRow(c.tokens.len() - tokens)
	c.repeats.endRow(c.repeats.len() - repeats)
	c.length.add(n)
	d.endRow(c)
}

// texts adds the row of a nested field, one text per element.
func (d *deriver) texts(c *derivedColumns, values []string) {
	repeats, spread := c.repeats.len(), c.spread.len()
	var length, withTokens uint32
	for i, value := range values {
		begin := c.tokens.len()
		if value != "" {
			if n := d.element(c, value, i); n > 0 {
				length += n
				withTokens++
			}
		}
		c.tokens.endElement(c.tokens.len() - begin)
	}
	c.tokens.endRow(len(values))
	c.repeats.endRow(c.repeats.len() - repeats)
	c.spread.endRow(c.spread.len() - spread)
	c.length.add(length)
	c.values.add(withTokens)
	d.endRow(c)
}

// element adds the tokens of a present text and returns their number. A text without tokens gets one empty
// token, not counted, which distinguishes it from a missing text.
func (d *deriver) element(c *derivedColumns, value string, element int) uint32 {
	d.found = analysis.Analyze(d.found[:0], value)
	n := len(d.found)
	if n == 0 {
		d.found = append(d.found, analysis.Token{})
	}
	for _, t := range d.found {
		c.tokens.add(t.Text)
		repeated, spread := d.countToken(t.Text, element)
		if repeated {
			c.repeats.add(t.Text)
		}
		if spread {
			c.spread.add(t.Text)
		}
	}
	clear(d.found)   // Releases the value.
	return uint32(n) //nolint:gosec // a text has fewer bytes
}

// maxLinearWords is the maximum number of words for linear search; more are indexed.
const maxLinearWords = 16

// countToken records a token of an element. repeated: the row had it before; spread: it is new in the element and
// another element had it.
func (d *deriver) countToken(token string, element int) (repeated, spread bool) {
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
		spread = w.element != element
		w.element = element
		w.repeats++
		return true, spread
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

// endRow adds the word counts of a row and resets them.
func (d *deriver) endRow(c *derivedColumns) {
	if c.counted {
		times := c.times.len()
		for _, w := range d.words {
			for n, bit := w.repeats, 0; n > 0; n, bit = n>>1, bit+1 {
				if n&1 != 0 {
					c.times.addTime(w.text, bit)
				}
			}
		}
		c.times.endRow(c.times.len() - times)
	}
	if len(d.words) > maxLinearWords {
		clear(d.index)
	}
	clear(d.words)
	d.words = d.words[:0]
}

// tokenLists is a column of token lists, or of lists of such lists, in one buffer.
type tokenLists struct {
	arena    []byte
	ends     []int // of each token
	elements []int // tokens of each element, if nested
	rows     []int // tokens of each row, or elements if nested
	nested   bool
}

func (l *tokenLists) len() int { return len(l.ends) }

func (l *tokenLists) add(token string) {
	l.arena = append(l.arena, token...)
	l.ends = append(l.ends, len(l.arena))
}

// addTime adds Time of a token and a bit.
func (l *tokenLists) addTime(token string, bit int) {
	l.arena = append(append(l.arena, token...), timeMark)
	l.arena = strconv.AppendInt(l.arena, int64(bit), 10)
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
	var none any = []*string(nil) // Allocated once: most lists of repeats are empty.
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
