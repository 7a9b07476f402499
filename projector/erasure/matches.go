package erasure

import (
	"slices"

	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/suppress"
)

// matches are the matches of a sweep, by identifier.
type matches struct {
	people      map[string]map[string]suppress.Hash // platform, id -> hash of the matching entry
	links       map[string]bool                     // link_id
	discoveries map[uint64]bool                     // input_hash
	discovered  map[uint64]bool                     // value of discoveredHash
	hints       map[uint64]bool                     // value of hintHash
	contexts    map[uint64]bool                     // request_hash
	commits     map[uint64]string                   // keys of commits in accounts of others, by value of commitHash
	bulk        map[uint64]bool                     // answers of bulk jobs by value of readmodel.BulkHash
	attempts    map[uint64]bool                     // webhook attempts by value of attemptHash
	disclosed   []event.Disclosure                  // people whose receivers are to be notified
	feedback    map[uint64]bool                     // value of readmodel.FeedbackHash
}

func newMatches() *matches {
	return &matches{
		people: map[string]map[string]suppress.Hash{
			identity.Network: {}, identity.Codehost: {}, identity.Microblog: {},
		},
		links: make(map[string]bool), discoveries: make(map[uint64]bool), discovered: make(map[uint64]bool),
		hints:    make(map[uint64]bool),
		contexts: make(map[uint64]bool), bulk: make(map[uint64]bool),
		commits: make(map[uint64]string), attempts: make(map[uint64]bool), feedback: make(map[uint64]bool),
	}
}

func (f *matches) counts() map[string]int64 {
	out := map[string]int64{}
	for platform, ids := range f.people {
		if len(ids) > 0 {
			out[platform] = int64(len(ids))
		}
	}
	for name, n := range map[string]int{
		"account_links": len(f.links), "discoveries": len(f.discoveries), "discovered_links": len(f.discovered),
		"hints": len(f.hints), "contexts": len(f.contexts), "bulk_answers": len(f.bulk), "commits": len(f.commits),
		"webhook_attempts": len(f.attempts), "disclosed": len(f.disclosed), "feedback": len(f.feedback),
	} {
		if n > 0 {
			out[name] = int64(n)
		}
	}
	return out
}

// hashes returns the keys of a set of hashes.
func hashes[V any](set map[uint64]V) []uint64 {
	out := make([]uint64, 0, len(set))
	for h := range set {
		out = append(out, h)
	}
	return out
}

func (f *matches) empty() bool { return len(f.counts()) == 0 }

func (f *matches) ids(platform string) []string {
	var out []string
	for id := range f.people[platform] {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}
