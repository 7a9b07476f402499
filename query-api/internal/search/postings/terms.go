package postings

import "sync"

// terms caches the terms of a snapshot: which ones match fuzzy words and patterns, and their document frequencies.
type terms struct {
	mu     sync.Mutex
	lists  map[string][]string
	counts map[string]int64
	size   int
}

// maxTermBytes is the maximum size of the cached terms of a snapshot.
const maxTermBytes = 8 << 20

// grow makes room for the given number of bytes.
func (t *terms) grow(bytes int) {
	const each = 64
	if t.size += each + bytes; t.size > maxTermBytes || t.lists == nil {
		t.lists, t.counts, t.size = make(map[string][]string), make(map[string]int64), 0
	}
}

// counted returns the document frequency of a term, if it is cached.
func (t *terms) counted(key string) (int64, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, ok := t.counts[key]
	return n, ok
}

// absent reports whether a term is known to have no documents.
func (t *terms) absent(key string) bool {
	n, ok := t.counted(key)
	return ok && n == 0
}

func (t *terms) count(key string, n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.grow(len(key))
	t.counts[key] = n
}

// Terms returns the terms cached under key. Terms found while the parts change are cached, too: a caller that uses the
// snapshot again learns that it is not the latest, and one that has found them has to refresh.
func (s *Snapshot) Terms(key string) (list []string, ok bool) {
	t := s.terms
	t.mu.Lock()
	defer t.mu.Unlock()
	list, ok = t.lists[key]
	return list, ok
}

// KeepTerms caches terms under key. Neither may be modified afterwards.
func (s *Snapshot) KeepTerms(key string, list []string) {
	size := len(key)
	for _, term := range list {
		size += len(term) + 16
	}
	t := s.terms
	t.mu.Lock()
	defer t.mu.Unlock()
	t.grow(size)
	t.lists[key] = list
}
