package suppress

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json"

	"muster/schemas/record"
)

// Scope says in which records an entry suppresses.
type Scope string

// Scopes.
const (
	All      Scope = "all"
	Codehost Scope = "codehost"
	Network  Scope = "network"
)

// Entry is what is known of a hash, on event.TopicErasure under it: that who has
// the identifier is suppressed, or not any more. It names nobody.
type Entry struct {
	Type  Type  `json:"type"`
	Scope Scope `json:"scope"`
	// RequestedAt is the version: the newest entry of a hash decides, a lifted one
	// among equals.
	RequestedAt string `json:"requested_at"`
	RequestID   string `json:"request_id,omitempty"`
	// Lifted withdraws the suppression.
	Lifted bool `json:"lifted,omitzero"`
	// From is the hash of the entry that led to this one; empty for one that was
	// asked for.
	From string `json:"from,omitempty"`
	// Key is the ID of the key that made the hash.
	Key string `json:"key"`
	// Mark is [Key.Mark] of the identifier. Without it the entry suppresses as well, and
	// identifiers of its type take longer to look up.
	Mark string `json:"mark,omitempty"`
}

// Derived reports whether the entry follows from another one.
func (e *Entry) Derived() bool { return e.From != "" }

// ErrOtherKey says that an entry was made with another root secret: nobody that it
// suppresses would be recognized.
var ErrOtherKey = errors.New("the suppression set was made with another root secret (MUSTER_SECRET_KEY, or secret.key in the data folder): start with that one, or erased people would come back; `muster erase foreign` shows what was made with which")

// Set says who is suppressed.
type Set struct {
	key *Key
	// owner is whose the topic was said to be last, the ID of a key; nil: nobody's.
	owner atomic.Pointer[string]

	mu      sync.RWMutex
	entries table
	phones  int
	changes uint64
	lifts   uint64

	any   atomic.Bool   // something is suppressed
	types atomic.Uint64 // bits of the types of which something ever was
	// marks has the marks of all entries but those of the types in unmarked, of which
	// an entry came without one: each of their identifiers is looked up by its hash.
	marks    atomic.Pointer[filter]
	unmarked atomic.Uint64

	drop   atomic.Bool // something of a deletion list other than an e-mail address was
	loaded chan struct{}
	once   sync.Once

	asking sync.Pool // of *asked

	watch sync.Mutex
	woken chan struct{}
}

// NewSet returns an empty set that is not loaded yet.
func NewSet(key *Key) *Set {
	return &Set{key: key, loaded: make(chan struct{}), woken: make(chan struct{})}
}

// Key is the key of the set's hashes.
func (s *Set) Key() *Key { return s.key }

// Bits of a word: the version above them.
const (
	bitLifted   = 1 << 0
	bitCodehost = 1 << 1 // the scope, when it is not all
	bitNetwork  = 1 << 2
	bitUsed     = 1 << 3
	versionBits = 4
)

// Apply takes a message of event.TopicErasure. A message that cannot be read is an
// error, [ErrOtherKey] among them. An entry older than what is known changes
// nothing.
func (s *Set) Apply(key, value []byte) error {
	if value == nil {
		return nil // compaction forgets what was lifted long ago
	}
	var e Entry
	if string(key) == OwnerKey {
		if err := json.Unmarshal(value, &e); err != nil {
			return fmt.Errorf("suppression entry: whose the topic is: %w", err)
		}
		s.owner.Store(&e.Key)
		return nil
	}
	h, err := ParseHash(string(key))
	if err != nil {
		return fmt.Errorf("suppression entry: key %w", err)
	}
	if err := json.Unmarshal(value, &e); err != nil {
		return fmt.Errorf("suppression entry %s: %w", h, err)
	}
	if e.Key != s.key.id {
		return ErrOtherKey
	}
	word, err := e.word()
	if err != nil {
		return fmt.Errorf("suppression entry %s: %w", h, err)
	}
	s.types.Or(e.Type.bit()) // before the entry is there: nobody misses it
	if isDrop(e.Type) {
		s.drop.Store(true)
	}
	s.put(h, word, parseMark(e.Mark), e.Type)
	return nil
}

func (e *Entry) word() (uint64, error) {
	v, err := record.ParseVersion(e.RequestedAt)
	if err != nil {
		return 0, fmt.Errorf("requested_at %w", err)
	}
	word := uint64(v)<<versionBits | bitUsed //nolint:gosec // versions begin in the year 1
	switch e.Scope {
	case All:
	case Codehost:
		word |= bitCodehost
	case Network:
		word |= bitNetwork
	default:
		return 0, errors.New("scope is none of all, codehost and network")
	}
	if e.Lifted {
		word |= bitLifted
	}
	return word, nil
}

func (s *Set) put(h Hash, word uint64, mark uint32, t Type) {
	if t.index() >= typeCount {
		mark = 0 // nothing is looked up by such a type
	}
	s.mu.Lock()
	before, known := s.entries.get(h), s.entries.mark(h)
	changed := supersedes(word, before)
	if changed {
		s.changes++
		if word&bitLifted != 0 {
			s.lifts++
		}
		if t == Phone && before == 0 {
			s.phones++
		}
	} else {
		word = before
	}
	if known != 0 {
		if mark != 0 && mark != known { // one of them is wrong
			s.unmarked.Or(t.bit())
		}
		mark = known
	} else if mark == 0 && word&bitLifted == 0 {
		s.unmarked.Or(t.bit())
	}
	if changed || mark != known {
		s.entries.set(h, word, mark)
	}
	if mark != known {
		s.remember(mark)
	}
	s.mu.Unlock()
	if !changed {
		return
	}
	s.any.Store(true)
	s.watch.Lock()
	defer s.watch.Unlock()
	close(s.woken)
	s.woken = make(chan struct{})
}

// remember adds a mark, which the entries have already, to the filter.
func (s *Set) remember(mark uint32) {
	if f := s.marks.Load(); !f.full() {
		f.add(mark)
		return
	}
	s.marks.Store(s.entries.filter(s.entries.used))
}

// supersedes compares versions; of equal ones a lifted entry wins, then the last.
func supersedes(word, before uint64) bool {
	if word>>versionBits != before>>versionBits {
		return word>>versionBits > before>>versionBits
	}
	return word != before && (word&bitLifted != 0 || before&bitLifted == 0)
}

// Loaded marks the set as holding everything that was stored when following began.
func (s *Set) Loaded() { s.once.Do(func() { close(s.loaded) }) }

// IsLoaded reports whether Loaded was called. A nil set is.
func (s *Set) IsLoaded() bool {
	if s == nil {
		return true
	}
	select {
	case <-s.loaded:
		return true
	default:
		return false
	}
}

// WaitLoaded waits for Loaded; until then nobody may rely on the set. The error is
// the end of ctx.
func (s *Set) WaitLoaded(ctx context.Context) error {
	if s == nil {
		return nil
	}
	select {
	case <-s.loaded:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the suppression set: %w", context.Cause(ctx))
	}
}

// Changes counts the changes so far, and returns a channel that closes with the
// next.
func (s *Set) Changes() (uint64, <-chan struct{}) {
	s.watch.Lock()
	woken := s.woken
	s.watch.Unlock()
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.changes, woken
}

// Len is the number of hashes that are known, lifted ones included.
func (s *Set) Len() int {
	if s == nil {
		return 0
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.entries.used
}

// HasEmails reports whether an e-mail address was ever suppressed.
func (s *Set) HasEmails() bool { return s != nil && s.ofTypes(Email.bit()) }

// HasPhones reports whether a telephone number was ever suppressed.
func (s *Set) HasPhones() bool {
	if s == nil {
		return false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.phones > 0
}

// HasDrop reports whether an identifier of a deletion list that is no e-mail address
// was ever suppressed: only then are records read for such.
func (s *Set) HasDrop() bool { return s != nil && s.drop.Load() }

// Knows reports whether an entry of a hash is known, lifted or not, that is no older
// than a request.
func (s *Set) Knows(h Hash, requestedAt string) bool {
	v, err := record.ParseVersion(requestedAt)
	if err != nil {
		v = 0 // any entry is as new
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	word := s.entries.get(h)
	return word != 0 && word>>versionBits >= uint64(v)
}

// Compare says whether an entry is newer than what is known of its hash (1), says
// the same (0), or is older (-1).
func (s *Set) Compare(h Hash, e *Entry) (int, error) {
	word, err := e.word()
	if err != nil {
		return 0, err
	}
	s.mu.RLock()
	before := s.entries.get(h)
	s.mu.RUnlock()
	switch {
	case word == before:
		return 0, nil
	case supersedes(word, before):
		return 1, nil
	}
	return -1, nil
}

// Derive makes the entry that suppresses a record by its id, which was found by
// another hash; false when there is one already, or no id.
func (s *Set) Derive(platform, id string, by Hash) (Hash, Entry, bool) {
	t, ok := typesOf(platform)
	if !ok || strings.TrimSpace(id) == "" {
		return Hash{}, Entry{}, false
	}
	return s.derive(t.id, strings.TrimSpace(id), by)
}

// DeriveAccount is Derive for a username that the erased record bore.
func (s *Set) DeriveAccount(platform, username string, by Hash) (Hash, Entry, bool) {
	t, ok := typesOf(platform)
	if !ok || username == "" {
		return Hash{}, Entry{}, false
	}
	return s.derive(t.account, username, by)
}

// derive gives an entry the scope and the version of the one that it follows from.
func (s *Set) derive(t Type, standard string, by Hash) (Hash, Entry, bool) {
	sum := Sum(standard)
	h := s.key.Hash(t, sum)
	s.mu.RLock()
	cause, known := s.entries.get(by), s.entries.get(h)
	s.mu.RUnlock()
	if h == by || cause == 0 || cause&bitLifted != 0 {
		return Hash{}, Entry{}, false
	}
	if known != 0 && known&bitLifted == 0 && wider(known, cause) {
		return Hash{}, Entry{}, false
	}
	version := max(cause>>versionBits, known>>versionBits)
	if known != 0 { // lifted, or narrower: the new one is to be newer
		version = max(version, known>>versionBits+1)
	}
	e := Entry{
		Type: t, Scope: All, RequestedAt: record.Version(version).String(),
		From: by.String(), Key: s.key.id, Mark: s.key.Mark(t, sum),
	}
	switch {
	case known != 0 && known&bitLifted == 0: // of another scope: both hold
	case cause&bitCodehost != 0:
		e.Scope = Codehost
	case cause&bitNetwork != 0:
		e.Scope = Network
	}
	return h, e, true
}

// Unravel returns the entries that lift those of derived, the set's derived ones by
// hash, of which what they follow from is suppressed no more. Those that follow from
// them in turn are among them.
func (s *Set) Unravel(derived map[Hash]Entry) map[Hash]Entry {
	out := make(map[Hash]Entry)
	for more := true; more; {
		more = false
		for h, e := range derived {
			from, err := ParseHash(e.From)
			_, done := out[h]
			_, undone := out[from]
			if err != nil || done || !s.Suppressed(h) || s.Suppressed(from) && !undone {
				continue
			}
			e.Lifted = true
			out[h] = e
			more = true
		}
	}
	return out
}

// Lifts counts the entries that were applied and lift something.
func (s *Set) Lifts() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.lifts
}

// wider reports whether a word suppresses all that another one does.
func wider(a, b uint64) bool {
	const scope = bitCodehost | bitNetwork
	return a&scope == 0 || a&scope == b&scope
}

// Suppressed reports whether a hash is suppressed in any scope.
func (s *Set) Suppressed(h Hash) bool {
	if !s.active() {
		return false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	word := s.entries.get(h)
	return word != 0 && word&bitLifted == 0
}

// Everywhere reports whether a hash is suppressed in the records of all websets.
func (s *Set) Everywhere(h Hash) bool {
	if !s.active() {
		return false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	word := s.entries.get(h)
	return word != 0 && word&(bitLifted|bitCodehost|bitNetwork) == 0
}

// ofTypes is false when no identifier of types, by their bits, was ever suppressed, so
// that none of them needs to be hashed.
func (s *Set) ofTypes(bits uint64) bool { return s.types.Load()&bits != 0 }

// find returns the hash of an identifier; false when it is not in the set, which its mark
// tells of most.
func (s *Set) find(t Type, sum [sha256.Size]byte) (Hash, bool) {
	if s.unmarked.Load()&t.bit() == 0 && !s.marks.Load().has(s.key.mark(t.index(), sum)) {
		return Hash{}, false
	}
	return s.key.Hash(t, sum), true
}

// MarkOf is the mark of the identifier of a hash, for whoever writes another entry of it
// and has no identifier; empty if the set has none.
func (s *Set) MarkOf(h Hash) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return markText(s.entries.mark(h))
}

// active is false when nothing is suppressed, so that nothing needs to be hashed.
func (s *Set) active() bool { return s != nil && s.any.Load() }

// hit looks a hash up for the records of a webset: bitCodehost, bitNetwork, or 0
// for those of neither, which only the scope all suppresses.
func (s *Set) hit(h Hash, webset uint64) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	word := s.entries.get(h)
	if word == 0 || word&bitLifted != 0 {
		return false
	}
	scope := word & (bitCodehost | bitNetwork)
	return scope == 0 || scope == webset
}
