package v1

import (
	"errors"
	"sync"

	"golang.org/x/sync/semaphore"
)

// smallAnswer is up to how many bytes answers, and what they are made of, are not counted, so that large ones do not stand in
// the way of most calls.
const smallAnswer = 4 << 20

// errFull is the error of a call for whose answer there is no room.
var errFull = errors.New("large answers take all the memory that there is for them")

// share is what a call holds of the room that all large answers have together, from when their parts
// are read until they have left. A call does not wait for more of it: others may hold the rest and wait, too.
type share struct {
	room *semaphore.Weighted

	mu          sync.Mutex
	bytes, held int64
}

// take adds bytes to the answer.
func (s *share) take(n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes += int64(n)
	more := s.bytes - smallAnswer - s.held
	if more <= 0 {
		return nil
	}
	if !s.room.TryAcquire(more) {
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
		s.room.Release(s.held)
		s.held = 0
	}
}
