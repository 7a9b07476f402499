package postings

import "sync"

// terms are those that exist near words, or by patterns, as of a snapshot.
type terms struct {
	mu    sync.Mutex
	lists map[string][]string
	size  int
}

// maxTermBytes bounds the terms that are kept of a snapshot.
const maxTermBytes = 8 << 20

// Terms gives the terms of a key, which find finds when they are not known. Terms that are found while the table's parts
// change are kept with the snapshot all the same: whoever asks of it again learns that it is not the latest.
func (s *Snapshot) Terms(key string, find func() ([]string, error)) ([]string, error) {
	s.terms.mu.Lock()
	list, ok := s.terms.lists[key]
	s.terms.mu.Unlock()
	if ok {
		return list, nil
	}
	list, err := find()
	if err != nil {
		return nil, err
	}
	s.terms.mu.Lock()
	defer s.terms.mu.Unlock()
	if s.terms.size > maxTermBytes || s.terms.lists == nil {
		s.terms.lists, s.terms.size = make(map[string][]string), 0
	}
	s.terms.lists[key] = list
	s.terms.size += len(key) + 64
	for _, t := range list {
		s.terms.size += len(t) + 16
	}
	return list, nil
}
