package v1

import (
	"errors"
	"sync"
)

// uncountedBytes is the size up to which a response, including its parts, does not count towards the limit, so that
// large responses do not block most calls.
const uncountedBytes = 4 << 20

// errFull is returned if the response memory is used up.
var errFull = errors.New("response memory limit reached by the large answers of this organization or of all")

// room is the memory for all large responses. It is shared with dynamic thresholds (Choudhury and Hahne, 1998): an
// organization may hold at most as much as it leaves free. A single organization gets half of it, two get a third each,
// and another one always finds some.
type room struct {
	capacity int64

	mu     sync.Mutex
	held   int64
	shares map[string]int64 // bytes by organization
}

func newRoom(capacity int64) *room {
	return &room{capacity: capacity, shares: make(map[string]int64)}
}

// tryTake reserves bytes for an organization, and reports whether it could.
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

func (r *room) release(organization string, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held -= bytes
	if r.shares[organization] -= bytes; r.shares[organization] == 0 {
		delete(r.shares, organization)
	}
}

// share is the part of the room held by a call, from reading the parts of its response until they are sent. A call
// never waits for more, because others may hold the rest and wait, too.
type share struct {
	room *room

	mu           sync.Mutex
	organization string // set by take
	bytes, held  int64
}

// take adds n bytes to the response of a call. It returns errFull if the limit is reached.
func (s *share) take(organization string, n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.organization = organization
	s.bytes += int64(n)
	more := s.bytes - uncountedBytes - s.held
	if more <= 0 {
		return nil
	}
	if !s.room.tryTake(organization, more) {
		return errFull
	}
	s.held += more
	return nil
}

// free releases all held memory.
func (s *share) free() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held > 0 {
		s.room.release(s.organization, s.held)
		s.held = 0
	}
}
