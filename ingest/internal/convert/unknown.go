package convert

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"muster/schemas/event"
	"muster/schemas/record"
)

// Limits of what is kept of names that a schema does not have: they may be anything, of any
// length, and another in every record.
const (
	maxUnknownPaths = 1000
	maxUnknownPath  = 200 // bytes
)

// UnknownMember is a member that the schema of the records' kind does not have.
type UnknownMember struct {
	Kind record.Kind `json:"kind"`
	// Path is where it stands, as "experience[].company_name", cut off behind 200 bytes.
	Path string `json:"path"`
	// Records is how many records have it, Example the place of one of them, "people.ndjson:17".
	Records int64  `json:"records"`
	Example string `json:"example"`
	// DidYouMean is a member that the schema has and that may be meant; empty if none is close.
	DidYouMean string `json:"did_you_mean,omitempty"`
}

// Unknown counts the members of records that their kinds' schemas do not have: those that
// are the first 1,000 to be found, by whichever worker. It is for any number of goroutines.
type Unknown struct {
	names names

	mu      sync.Mutex
	records int64
	found   map[unknownKey]*unknownCount
	more    bool // than are counted
}

type unknownKey struct {
	kind record.Kind
	path string
}

type unknownCount struct {
	records int64
	last    int64 // the record it was last found in
	example event.Source
}

// NewUnknown returns counts of nothing yet.
func NewUnknown() *Unknown { return &Unknown{found: map[unknownKey]*unknownCount{}} }

// add counts the members of a record, which is a compact JSON object, before anything is split off from it.
func (u *Unknown) add(kind record.Kind, compact []byte, at event.Source) {
	members := u.names.of(kind)
	if members == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.records++
	members.EachUnknown(compact, func(path []byte) {
		key := unknownKey{kind, shortPath(path)}
		c, ok := u.found[key]
		switch {
		case !ok && len(u.found) == maxUnknownPaths:
			u.more = true
			return
		case !ok:
			c = &unknownCount{example: at}
			u.found[key] = c
		case c.last == u.records:
			return // another element of a list
		case at.File == c.example.File && at.Line < c.example.Line:
			c.example = at // chunks are converted beside one another
		}
		c.records++
		c.last = u.records
	})
}

func shortPath(path []byte) string {
	if len(path) <= maxUnknownPath {
		return string(path)
	}
	return strings.ToValidUTF8(string(path[:maxUnknownPath]), "") + "..."
}

// Members returns what was counted, what most records have first, and whether there are more,
// which were not. Without counts there is nothing.
func (u *Unknown) Members() (members []UnknownMember, more bool) {
	if u == nil {
		return nil, false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	members = make([]UnknownMember, 0, len(u.found))
	for key, c := range u.found {
		members = append(members, UnknownMember{
			Kind: key.kind, Path: key.path, Records: c.records, Example: c.example.String(),
			DidYouMean: suggest(u.names.of(key.kind), key.path),
		})
	}
	slices.SortFunc(members, func(a, b UnknownMember) int {
		return cmp.Or(cmp.Compare(b.Records, a.Records), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Path, b.Path))
	})
	return members, u.more
}
