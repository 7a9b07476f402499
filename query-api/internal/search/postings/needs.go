package postings

import (
	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
)

// view is what a query needs of one part.
type view struct {
	part     *part
	linked   string // the state of the linked accounts
	leaves   map[string]*matched
	norms    map[string]norms // by path and field
	values   map[string]*values
	elements map[string]*elements
}

func newView(p *part, s *Snapshot) *view {
	return &view{
		part:     p,
		linked:   s.linked,
		leaves:   make(map[string]*matched),
		norms:    make(map[string]norms),
		values:   make(map[string]*values),
		elements: make(map[string]*elements),
	}
}

// key returns the cache key of data; linked reports whether it is of linked accounts.
func (v *view) key(kind, key string, linked bool) entryKey {
	k := entryKey{part: v.part.identity, what: kind + key}
	if linked {
		k.linked = v.linked
	}
	return k
}

// size returns the number of units of a path: elements, or people if it is empty.
func (v *view) size(path string) int {
	if path == "" {
		return v.part.size
	}
	return len(v.elements[path].owners)
}

// needs is what a query reads of each part.
type needs struct {
	leaves map[string]planner.Leaf
	norms  map[string]planner.Text
	values map[string]algebra.Field
	paths  map[string]bool
	// seen is the state of the newer versions that updated_at depends on, empty if there are none.
	seen string
}

func textKey(t planner.Text) string { return t.Path + "\x00" + t.Field.Name() }

func newNeeds() *needs {
	return &needs{
		leaves: make(map[string]planner.Leaf),
		norms:  make(map[string]planner.Text),
		values: make(map[string]algebra.Field),
		paths:  make(map[string]bool),
	}
}
