package v1

import (
	"errors"
	"sync"
)

// smallAnswer is up to how many bytes answers, and what they are made of, are not counted, so that large ones do not stand in
// the way of most calls.
const smallAnswer = 4 << 20

// errFull is the error of a call for whose answer there is no room.
var errFull = errors.New("response memory limit reached by the large answers of this organization or of all")

// room is the memory that all large answers may take together. It is shared by dynamic thresholds (Choudhury and
// Hahne, 1998): an organization may hold as much as it leaves free. One alone gets half of the room, two get a third
// each, and however many there are, the next one finds some.
type room struct {
	capacity int64

	mu     sync.Mutex
	held   int64
	shares map[string]int64 // bytes by organization
}

func newRoom(capacity int64) *room {
	return &room{capacity: capacity, shares: make(map[string]int64)}
}

// tryTake reports whether the organization may hold so many bytes more, and then does.
func (r *room) tryTake(organization string, bytes int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shares[organization]+bytes > r.capacity-r.held-bytes {
		return false
	}
	r.held += bytes
	r.shares[organization] += bytes
	return true
}

func (r *room) giveBack(organization string, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held -= bytes
	if r.shares[organization] -= bytes; r.shares[organization] == 0 {
		delete(r.shares, organization)
	}
}

// share is what a call holds of the room, from when the parts of its answer
// are read until they have left. A call does not wait for more of it: others may hold the rest and wait, too.
type share struct {
	room *room

	mu           sync.Mutex
	organization string // of the first take
	bytes, held  int64
}

// take adds bytes to the answer of a call of the organization.
func (s *share) take(organization string, n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.organization = organization
	s.bytes += int64(n)
	more := s.bytes - smallAnswer - s.held
	if more <= 0 {
		return nil
	}
	if !s.room.tryTake(organization, more) {
		return errFull
	}
	s.held += more
	return nil
}

// leave gives back what is held.
func (s *share) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held > 0 {
		s.room.giveBack(s.organization, s.held)
		s.held = 0
	}
}
