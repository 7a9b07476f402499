package postings

import "sync"

// terms is what is known of the terms of a snapshot: which exist near words and by patterns, and how many documents have them.
type terms struct {
	mu     sync.Mutex
	lists  map[string][]string
	counts map[string]int64
	size   int
}

// maxTermBytes bounds what is kept of the terms of a snapshot.
const maxTermBytes = 8 << 20

// grow makes room for something that takes so many bytes.
func (t *terms) grow(bytes int) {
	const each = 64
	if t.size += each + bytes; t.size > maxTermBytes || t.lists == nil {
		t.lists, t.counts, t.size = make(map[string][]string), make(map[string]int64), 0
	}
}

// counted is how many documents have a term.
func (t *terms) counted(key string) (int64, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, ok := t.counts[key]
	return n, ok
}

// absent says that it is known that nobody has a term.
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

// HasTerms reports whether the terms of a key are cached.
func (s *Snapshot) HasTerms(key string) bool {
	s.terms.mu.Lock()
	defer s.terms.mu.Unlock()
	_, ok := s.terms.lists[key]
	return ok
}

// Terms gives the terms of a key, which find finds when they are not known. Terms that are found while the table's parts
// change are kept with the snapshot all the same: whoever asks of it again learns that it is not the latest. Who has found them has to
// look again.
func (s *Snapshot) Terms(key string, find func() ([]string, error)) ([]string, error) {
	t := s.terms
	t.mu.Lock()
	list, ok := t.lists[key]
	t.mu.Unlock()
	if ok {
		return list, nil
	}
	list, err := find()
	if err != nil {
		return nil, err
	}
	size := len(key)
	for _, term := range list {
		size += len(term) + 16
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.grow(size)
	t.lists[key] = list
	return list, nil
}
