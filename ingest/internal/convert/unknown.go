package convert

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"muster/schemas/event"
	"muster/schemas/record"
)

// Limits of the counts of unknown fields, whose names may be of any length and different in every record.
const (
	maxUnknownPaths = 1000
	maxUnknownPath  = 200 // bytes
)

// UnknownField is a field that is not in the schema of the records' kind.
type UnknownField struct {
	Kind record.Kind `json:"kind"`
	// Path is the path of the field, as "experience[].company_name", truncated to 200 bytes.
	Path string `json:"path"`
	// Records is the number of records with the field, Example the location of one of them,
	// "people.ndjson:17".
	Records int64  `json:"records"`
	Example string `json:"example"`
	// DidYouMean is a similar field of the schema; empty if there is none.
	DidYouMean string `json:"did_you_mean,omitempty"`
}

// Unknown counts fields that are not in the schemas of the records' kinds: the first 1,000 found by
// any worker. It is safe for concurrent use.
type Unknown struct {
	names schemaFields

	mu        sync.Mutex
	records   int64
	found     map[unknownKey]*unknownCount
	truncated bool // further fields were not counted
}

type unknownKey struct {
	kind record.Kind
	path string
}

type unknownCount struct {
	records int64
	last    int64 // number of the last record with the field
	example event.Source
}

// NewUnknown returns an empty Unknown.
func NewUnknown() *Unknown { return &Unknown{found: map[unknownKey]*unknownCount{}} }

// add counts the fields of a record, a compact JSON object before extraction.
func (u *Unknown) add(kind record.Kind, compact []byte, at event.Source) {
	members := u.names.forKind(kind)
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
			u.truncated = true
			return
		case !ok:
			c = &unknownCount{example: at}
			u.found[key] = c
		case c.last == u.records:
			return // another element of an array
		case at.File == c.example.File && at.Line < c.example.Line:
			// Chunks are converted concurrently.
			c.example = at
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

// Fields returns the counted fields, most frequent first, and whether further ones were not
// counted. It returns nothing if u is nil.
func (u *Unknown) Fields() (members []UnknownField, truncated bool) {
	if u == nil {
		return nil, false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	members = make([]UnknownField, 0, len(u.found))
	for key, c := range u.found {
		members = append(members, UnknownField{
			Kind: key.kind, Path: key.path, Records: c.records, Example: c.example.String(),
			DidYouMean: suggestField(u.names.forKind(key.kind), key.path),
		})
	}
	slices.SortFunc(members, func(a, b UnknownField) int {
		return cmp.Or(cmp.Compare(b.Records, a.Records), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Path, b.Path))
	})
	return members, u.truncated
}
