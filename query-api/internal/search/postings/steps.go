package postings

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"

	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
	"muster/query-api/internal/search/sloppyphrase"
	"muster/schemas/readmodel"
)

// The steps that read what one query needs.
const (
	stepElements = "elements"
	stepLeaves   = "postings"
	stepPhrase   = "phrase"
	stepLengths  = "lengths"
	stepValues   = "values"
)

// readParts runs a statement that reads parts.
func (l *loader) readParts(step string, statement planner.Statement, scan func(driver.Rows) error) error {
	return l.query(l.ctx, step, l.views[0].part.replica.Read(statement), scan)
}

// lacking are the views without some data, by the names of their parts.
func (l *loader) lacking(has func(*view) bool) (byName map[string]*view, names []string) {
	l.reading.Lock()
	defer l.reading.Unlock()
	byName = make(map[string]*view)
	for _, v := range l.views {
		if !has(v) {
			byName[v.part.name] = v
			names = append(names, v.part.name)
		}
	}
	return byName, names
}

func (l *loader) loadElements(n *needs) error {
	for path := range n.paths {
		if isLinked(l.cfg.Collection, path) {
			continue // They are read with their values.
		}
		byName, names := l.lacking(func(v *view) bool { return v.elements[path] != nil })
		if len(names) == 0 {
			continue
		}
		counts := make(map[string][]uint32)
		for name, v := range byName {
			counts[name] = make([]uint32, v.part.size)
		}
		var name, raw string
		var number uint32
		err := l.readParts(stepElements, planner.ElementsStatement(l.cfg.Collection, path, names),
			func(rows driver.Rows) error {
				if err := rows.Scan(&name, &number, &raw); err != nil {
					return err
				}
				of := counts[name]
				return readMembers(raw, func(row uint32) error {
					if int(row) >= len(of) {
						return errChanged
					}
					of[row] = number
					return nil
				})
			})
		if err != nil {
			return err
		}
		for name, v := range byName {
			e := &elements{starts: make([]uint32, v.part.size+1)}
			at := uint32(0)
			for row, count := range counts[name] {
				e.starts[row] = at
				at += count
				for range count {
					e.owners = append(e.owners, uint32(row))
				}
			}
			e.starts[v.part.size] = at
			v.elements[path] = e
			l.note(v.key(elementsKind, path, false), e)
		}
	}
	return l.checkSize()
}

// The maximum numbers of leaves and of lengths that a statement reads. Most leaves are read from indexes in one select.
const (
	maxLeavesPerStatement  = 64
	maxLengthsPerStatement = 16
)

// A statement should take at most a second: if the query's time ends first, its result is lost, and the next query has
// to read it again. Short ones mostly plan: a select of the wide table takes 3 ms. A cut one had little time.
const (
	shortStatement = 250 * time.Millisecond
	longStatement  = time.Second
	cutStatement   = 100 * time.Millisecond
)

// batchSize is the number of leaves or lengths that a statement reads, adapted to the durations of previous ones.
type batchSize struct {
	most   int
	mu     sync.Mutex
	halved int // how often the number was halved
}

func (s *batchSize) length() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most >> s.halved
}

// record adapts the size to a statement that read some items, whether these were as many as possible, and whether it
// completed.
func (s *batchSize) record(full bool, elapsed time.Duration, whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.most>>s.halved > 1 && (elapsed > longStatement || !whole && elapsed > cutStatement):
		s.halved++
	case whole && elapsed < shortStatement && full && s.halved > 0:
		s.halved--
	}
}

// inBatches calls read with batches of keys. weight returns what a key counts, in eighths of an item of a batch.
func (l *loader) inBatches(
	batchSize *batchSize, all []string, weight func(key string) int, read func(some []string) error,
) error {
	for len(all) > 0 {
		n, sum, most := 0, 0, 8*batchSize.length()
		for n < len(all) && (n == 0 || sum+weight(all[n]) <= most) {
			sum += weight(all[n])
			n++
		}
		some := all[:n]
		began := time.Now()
		err := read(some)
		batchSize.record(sum == most || n < len(all), time.Since(began), err == nil)
		if err == nil {
			err = l.keep()
		}
		if err != nil {
			return err
		}
		all = all[len(some):]
	}
	return nil
}

func (l *loader) loadLeaves(n *needs) error {
	// Keys by the parts that lack them and whether tokens have to be read, so that those read together are adjacent.
	loads := make(map[string][]string)
	ordered := slices.SortedFunc(maps.Keys(n.leaves), func(a, b string) int {
		return cmp.Or(strings.Compare(n.leaves[a].Group(), n.leaves[b].Group()), strings.Compare(a, b))
	})
	for _, key := range ordered {
		leaf := n.leaves[key]
		which := l.lacks(func(v *view) bool { return v.leaves[key] != nil })
		if !strings.Contains(which, "\x01") {
			continue
		}
		if p, phrase := leaf.Node.(algebra.Phrase); phrase && p.Slop > 0 {
			if err := l.loadSloppy(leaf, key); err != nil {
				return err
			}
			continue
		} else if phrase {
			which += "phrase"
		}
		loads[which] = append(loads[which], key)
	}
	for _, keys := range loads {
		terms := make(map[string]int) // by field
		for _, key := range keys {
			if f, ok := n.leaves[key].Repeated(); ok {
				terms[f.Name()]++
			}
		}
		weight := func(key string) int { return n.leaves[key].Weight(terms, l.rows()) }
		load := func(some []string) error { return l.loadSome(n, some) }
		if err := l.inBatches(&l.leafBatch, keys, weight, load); err != nil {
			return err
		}
	}
	return nil
}

// rows returns the number of rows of the parts.
func (l *loader) rows() int {
	sum := 0
	for _, v := range l.views {
		sum += v.part.size
	}
	return sum
}

func (l *loader) loadSome(n *needs, keys []string) error {
	leaves := make([]planner.Leaf, len(keys))
	for i, key := range keys {
		leaves[i] = n.leaves[key]
	}
	byName, names := l.lacking(func(v *view) bool { return v.leaves[keys[0]] != nil })
	// Several loads may run.
	if half := len(keys) / 2; half > 0 && builderBytes(leaves, byName) > l.cfg.MaxBytes/4 {
		if err := l.loadSome(n, keys[:half]); err != nil {
			return err
		}
		return l.loadSome(n, keys[half:])
	}
	type target struct {
		name string
		leaf uint16
	}
	builders := make(map[target]*builder)
	var number uint16
	var name, raw string
	var element, spread uint32
	var frequency float64
	var scanning sync.Mutex
	scan := func(rows driver.Rows) error {
		scanning.Lock()
		defer scanning.Unlock()
		if err := rows.Scan(&number, &name, &element, &frequency, &spread, &raw); err != nil {
			return err
		}
		v := byName[name]
		if v == nil || int(number) >= len(leaves) {
			return fmt.Errorf("postings: unexpected row for leaf %d of part %q", number, name)
		}
		path := leaves[number].Path
		b := builders[target{name, number}]
		if b == nil {
			b = newBuilder(v.size(path))
			builders[target{name, number}] = b
		}
		f := b.frequency(frequency)
		if path == "" {
			return readMembers(raw, func(row uint32) error { return b.add(row, f, spread) })
		}
		starts := v.elements[path].starts
		return readMembers(raw, func(row uint32) error {
			if int(row)+1 >= len(starts) || starts[row]+element > starts[row+1] {
				return errChanged
			}
			return b.add(starts[row]+element-1, f, 0)
		})
	}
	var g errgroup.Group
	for _, s := range planner.LeafStatements(leaves, names, l.rows(), max(1, l.workers)) {
		g.Go(func() error { return l.readParts(stepLeaves, s, scan) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	l.reading.Lock()
	defer l.reading.Unlock()
	for name, v := range byName {
		for i, key := range keys {
			of := target{name, uint16(i)}
			b := builders[of]
			if b == nil {
				b = newBuilder(v.size(leaves[i].Path))
			}
			m := b.matched()
			delete(builders, of) // the list is smaller
			v.leaves[key] = m
			l.note(v.key(leafKind, key, leaves[i].Linked()), m)
		}
	}
	return l.checkSize()
}

// builderBytes returns what the builders of leaves take at most, unless a leaf has more than maxFrequencies.
func builderBytes(leaves []planner.Leaf, views map[string]*view) (sum int) {
	for _, leaf := range leaves {
		eighths := 1 // of bytes of each unit
		term, isTerm := leaf.Node.(algebra.Term)
		if _, phrase := leaf.Node.(algebra.Phrase); phrase || isTerm && term.Field.IsText() {
			eighths += 8 // codes
		}
		if isTerm && leaf.Path == "" && term.Field.Nested != "" {
			eighths += 32 // spread
		}
		for _, v := range views {
			sum += v.size(leaf.Path) * eighths / 8
		}
	}
	return sum
}

// elementGap is the number of positions between two elements of a nested text that is searched as one text.
const elementGap = 100

// loadSloppy reads a phrase with slop. Its frequencies are computed here, from the tokens of the people who have its
// words.
func (l *loader) loadSloppy(leaf planner.Leaf, key string) error {
	phrase := leaf.Node.(algebra.Phrase) //nolint:forcetypeassert // see loadLeaves
	byName, names := l.lacking(func(v *view) bool { return v.leaves[key] != nil })
	builders := make(map[string]*builder)
	for name, v := range byName {
		builders[name] = newBuilder(v.size(leaf.Path))
	}
	var name string
	var row uint32
	var lists [][]string
	add := func(b *builder, unit uint32, tokens []string) error {
		if f := sloppyFrequency(phrase, tokens); f > 0 {
			return b.add(unit, b.frequency(f), 0)
		}
		return nil
	}
	err := l.readParts(stepPhrase, planner.PhraseStatement(phrase, names), func(rows driver.Rows) error {
		if err := rows.Scan(&name, &row, &lists); err != nil {
			return err
		}
		v, b := byName[name], builders[name]
		if v == nil {
			return fmt.Errorf("postings: unexpected row for a phrase in part %q", name)
		}
		if leaf.Path == "" {
			var all []string
			for _, tokens := range lists {
				if len(all) > 0 && len(tokens) > 0 {
					all = append(all, make([]string, elementGap)...)
				}
				if len(lists) > 1 { // of a text without words
					tokens = slices.DeleteFunc(tokens, func(t string) bool { return t == "" })
				}
				all = append(all, tokens...)
			}
			return add(b, row, all)
		}
		starts := v.elements[leaf.Path].starts
		if int(row)+1 >= len(starts) || int(starts[row])+len(lists) != int(starts[row+1]) {
			return errChanged
		}
		for i, tokens := range lists {
			if err := add(b, starts[row]+uint32(i), tokens); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	l.reading.Lock()
	for name, v := range byName {
		m := builders[name].matched()
		v.leaves[key] = m
		l.note(v.key(leafKind, key, leaf.Linked()), m)
	}
	err = l.checkSize()
	l.reading.Unlock()
	return errors.Join(err, l.keep())
}

// sloppyFrequency returns the frequency of a phrase with slop in a text.
func sloppyFrequency(p algebra.Phrase, tokens []string) float64 {
	var terms []sloppyphrase.Term
	for i, words := range p.Terms {
		if len(words) == 0 {
			continue
		}
		t := sloppyphrase.Term{Offset: i, Words: words}
		for at, token := range tokens {
			if token != "" && slices.Contains(words, token) {
				t.Positions = append(t.Positions, at)
			}
		}
		if len(t.Positions) == 0 {
			return 0
		}
		terms = append(terms, t)
	}
	if len(terms) == 1 {
		return float64(len(terms[0].Positions))
	}
	return sloppyphrase.Frequency(terms, p.Slop)
}

// lacks returns the views that lack some data, by the names of their parts.
func (l *loader) lacks(has func(*view) bool) string {
	l.reading.Lock()
	defer l.reading.Unlock()
	which := make([]byte, len(l.views))
	for i, v := range l.views {
		if !has(v) {
			which[i] = 1
		}
	}
	return string(which)
}

func (l *loader) loadNorms(n *needs) error {
	loads := make(map[string][]string) // keys by the parts that lack them
	for key := range n.norms {
		which := l.lacks(func(v *view) bool { return v.norms[key] != nil })
		if strings.Contains(which, "\x01") {
			loads[which] = append(loads[which], key)
		}
	}
	for _, keys := range loads {
		load := func(some []string) error { return l.loadLengths(n, some) }
		if err := l.inBatches(&l.lengthBatch, keys, func(string) int { return 8 }, load); err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) loadLengths(n *needs, keys []string) error {
	byName, names := l.lacking(func(v *view) bool { return v.norms[keys[0]] != nil })
	texts := make([]planner.Text, len(keys))
	lengths := make(map[string][]norms) // by part name
	for i, key := range keys {
		texts[i] = n.norms[key]
		for name, v := range byName {
			lengths[name] = append(lengths[name], make(norms, v.size(texts[i].Path)))
		}
	}
	var number uint16
	var name, raw string
	var element, length uint32
	err := l.readParts(stepLengths, planner.LengthsStatement(texts, names), func(rows driver.Rows) error {
		if err := rows.Scan(&number, &name, &element, &length, &raw); err != nil {
			return err
		}
		v := byName[name]
		if v == nil || int(number) >= len(keys) {
			return fmt.Errorf("postings: unexpected row for lengths of text %d of part %q", number, name)
		}
		path := texts[number].Path
		of, code := lengths[name][number], normOf(length)
		return readMembers(raw, func(row uint32) error {
			unit := row
			if path != "" {
				starts := v.elements[path].starts
				if int(row)+1 >= len(starts) {
					return errChanged
				}
				unit = starts[row] + element - 1
			}
			if int(unit) >= len(of) {
				return errChanged
			}
			of[unit] = code
			return nil
		})
	})
	if err != nil {
		return err
	}
	l.reading.Lock()
	defer l.reading.Unlock()
	for name, v := range byName {
		for i, key := range keys {
			v.norms[key] = lengths[name][i]
			l.note(v.key(normsKind, key, texts[i].Field.Linked), v.norms[key])
		}
	}
	return l.checkSize()
}

// loadValues reads columns: those with lists of linked accounts, whose elements it reads, too, or all others.
func (l *loader) loadValues(n *needs, linkedLists bool) error {
	for key, f := range n.values {
		if linkedLists != (f.Linked && f.Nested != "") {
			continue
		}
		for _, v := range l.views {
			if v.values[key] != nil && (f.Nested == "" || v.elements[f.Nested] != nil) {
				continue
			}
			values, err := l.readValues(v, f)
			if err != nil {
				return err
			}
			if n.seen != "" && planner.ReadsUpdatedAt(f) {
				if err := l.applyVersions(v, values.numbers); err != nil {
					return err
				}
			}
			l.reading.Lock()
			v.values[key] = values
			l.note(n.valuesKey(v, key), values)
			err = l.checkSize()
			l.reading.Unlock()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// readValues reads a column of a part. Rows that were deleted from the part have no values.
func (l *loader) readValues(v *view, f algebra.Field) (*values, error) {
	if f.Linked && f.Nested != "" {
		return l.readLinkedLists(v, f)
	}
	size := v.size(f.Nested)
	out := &values{}
	var number int64
	var text string
	var put func(unit int)
	dest := any(&number)
	if f.IsString() {
		out.texts, out.size, dest = make([]string, size), (16+4)*size, &text
		out.codes, out.dictionary = make([]uint32, size), []string{""}
		shared := map[string]uint32{"": 0} // most columns repeat their values
		put = func(unit int) {
			code, known := shared[text]
			switch {
			case known:
				text = out.dictionary[code]
			case len(shared) < maxShared:
				code = uint32(len(shared)) //nolint:gosec // at most maxShared
				shared[text], out.dictionary = code, append(out.dictionary, text)
				out.size += len(text) + 8 // of totals
			default:
				out.codes = nil
				out.size += len(text)
			}
			out.texts[unit] = text
			if out.codes != nil {
				out.codes[unit] = code
			}
		}
	} else {
		out.numbers, out.size = make([]int64, size), 8*size
		for i := range out.numbers {
			out.numbers[i] = readmodel.SearchMissing
		}
		put = func(unit int) { out.numbers[unit] = number }
	}
	var row uint32
	next := 0 // of the elements
	err := l.readParts(stepValues, planner.ValuesStatement(f, v.part.name), func(rows driver.Rows) error {
		if err := rows.Scan(&row, dest); err != nil {
			return err
		}
		unit := int(row)
		if f.Nested != "" {
			unit = next
			next++
		}
		if unit >= size {
			return errChanged
		}
		put(unit)
		return nil
	})
	if err == nil && f.Nested != "" && next != size {
		err = errChanged
	}
	return out, err
}

// readLinkedLists reads a field with lists of strings of linked accounts, and how many values each person has: a second
// statement may see newer accounts.
func (l *loader) readLinkedLists(v *view, f algebra.Field) (*values, error) {
	out, e := &values{texts: []string{}}, &elements{starts: make([]uint32, v.part.size+1)}
	shared := make(map[string]string)
	var row, last uint32
	var text string
	err := l.readParts(stepValues, planner.ValuesStatement(f, v.part.name), func(rows driver.Rows) error {
		if err := rows.Scan(&row, &text); err != nil {
			return err
		}
		if int(row) >= v.part.size || row < last {
			return errChanged
		}
		last = row
		same, ok := shared[text]
		if !ok {
			same, out.size = text, out.size+len(text)
			shared[text] = text
		}
		out.texts, e.owners, out.size = append(out.texts, same), append(e.owners, row), out.size+16
		e.starts[row+1]++
		return nil
	})
	for i := range v.part.size {
		e.starts[i+1] += e.starts[i]
	}
	v.elements[f.Nested] = e
	l.note(v.key(elementsKind, f.Nested, true), e)
	return out, err
}

// maxShared is the number of distinct texts of a column that are deduplicated while it is read.
const maxShared = 1 << 18

// applyVersions replaces the times of content by those of newer versions.
func (l *loader) applyVersions(v *view, values []int64) error {
	var row uint32
	var value int64
	return l.readParts("freshened", planner.FreshenedStatement(v.part.name), func(rows driver.Rows) error {
		if err := rows.Scan(&row, &value); err != nil {
			return err
		}
		if int(row) >= len(values) {
			return errChanged
		}
		values[row] = value
		return nil
	})
}
