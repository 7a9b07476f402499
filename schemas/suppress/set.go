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

// Scope limits the records that an entry suppresses.
type Scope string

// Scopes.
const (
	All      Scope = "all"
	Codehost Scope = "codehost"
	Network  Scope = "network"
)

// Entry is the value of a hash on event.TopicErasure: whether records with the identifier are suppressed. It
// contains no personal data.
type Entry struct {
	Type  Type  `json:"type"`
	Scope Scope `json:"scope"`
	// RequestedAt is the version: the newest entry of a hash wins; if versions tie, a withdrawn one.
	RequestedAt string `json:"requested_at"`
	RequestID   string `json:"request_id,omitempty"`
	// Unsuppressed withdraws the suppression.
	Unsuppressed bool `json:"lifted,omitzero"`
	// From is the hash of the entry that this one is derived from; empty for requested ones.
	From string `json:"from,omitempty"`
	// Key is the ID of the hash key.
	Key string `json:"key"`
	// Mark is [Key.Mark] of the identifier. Entries without it are valid, but slow down lookups of their
	// type.
	Mark string `json:"mark,omitempty"`
}

// Derived reports whether the entry is derived from another one.
func (e *Entry) Derived() bool { return e.From != "" }

// ErrOtherKey means that an entry was created with another root secret, so the people whom it suppresses cannot be
// recognized.
var ErrOtherKey = errors.New("the suppression set was created with another root secret (MUSTER_SECRET_KEY, or " +
	"secret.key in the data directory): start with that secret, or erased people would reappear; `muster erase keys` " +
	"lists the secrets in use")

// Set is the suppression set.
type Set struct {
	key *Key
	// owner is the key ID in the last owner record of the topic, or nil.
	owner atomic.Pointer[string]

	mu      sync.RWMutex
	entries table
	phones  int
	changes uint64
	lifts   uint64

	any   atomic.Bool   // something is suppressed
	types atomic.Uint64 // bits of the types that were ever suppressed
	// marks has the marks of all entries, except for the types in unmarked: those have an entry without a
	// mark, so their identifiers are looked up by hash.
	marks    atomic.Pointer[filter]
	unmarked atomic.Uint64

	drop   atomic.Bool // a value of a deletion list other than an e-mail address was suppressed
	loaded chan struct{}
	once   sync.Once

	lookups sync.Pool // of *batchLookup

	watch sync.Mutex
	woken chan struct{}
}

// NewSet returns an empty set that is not loaded yet.
func NewSet(key *Key) *Set {
	return &Set{key: key, loaded: make(chan struct{}), woken: make(chan struct{})}
}

// Key returns the key of the set's hashes.
func (s *Set) Key() *Key { return s.key }

// Low bits of a word, below the version.
const (
	bitLifted   = 1 << 0
	bitCodehost = 1 << 1 // scope, unless all
	bitNetwork  = 1 << 2
	bitUsed     = 1 << 3
	versionBits = 4
)

// Apply applies a message of event.TopicErasure. It returns an error if the message is invalid, or
// [ErrOtherKey]. An entry older than the known one is ignored.
func (s *Set) Apply(key, value []byte) error {
	if value == nil {
		return nil // Compaction removes entries withdrawn long ago.
	}
	var e Entry
	if string(key) == OwnerKey {
		if err := json.Unmarshal(value, &e); err != nil {
			return fmt.Errorf("suppression entry: owner: %w", err)
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
	s.types.Or(e.Type.bit()) // Before the entry is stored, so that no lookup misses it.
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
		return 0, errors.New("scope must be all, codehost or network")
	}
	if e.Unsuppressed {
		word |= bitLifted
	}
	return word, nil
}

func (s *Set) put(h Hash, word uint64, mark uint32, t Type) {
	if t.index() >= typeCount {
		mark = 0 // Not looked up by records.
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
		if mark != 0 && mark != known { // One of them is wrong.
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

// remember adds the mark of an entry to the filter.
func (s *Set) remember(mark uint32) {
	if f := s.marks.Load(); !f.full() {
		f.add(mark)
		return
	}
	s.marks.Store(s.entries.filter(s.entries.used))
}

// supersedes reports whether a word replaces another one: by version, then a withdrawal, then the last one
// applied.
func supersedes(word, before uint64) bool {
	if word>>versionBits != before>>versionBits {
		return word>>versionBits > before>>versionBits
	}
	return word != before && (word&bitLifted != 0 || before&bitLifted == 0)
}

// Loaded marks the set as complete up to the entries that were stored when following began.
func (s *Set) Loaded() { s.once.Do(func() { close(s.loaded) }) }

// IsLoaded reports whether Loaded was called. It is true for a nil set.
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

// WaitLoaded blocks until Loaded is called. Before that the set is incomplete. It returns an error if ctx
// ends.
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

// Changes returns the number of changes so far, and a channel that is closed at the next one.
func (s *Set) Changes() (uint64, <-chan struct{}) {
	s.watch.Lock()
	woken := s.woken
	s.watch.Unlock()
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.changes, woken
}

// Len returns the number of known hashes, including withdrawn ones.
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

// HasPhones reports whether a phone number was ever suppressed.
func (s *Set) HasPhones() bool {
	if s == nil {
		return false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.phones > 0
}

// HasDrop reports whether a value of a deletion list other than an e-mail address was ever suppressed.
// Otherwise records need not be searched for such values.
func (s *Set) HasDrop() bool { return s != nil && s.drop.Load() }

// Knows reports whether the hash has an entry, withdrawn or not, at least as new as a request.
func (s *Set) Knows(h Hash, requestedAt string) bool {
	v, err := record.ParseVersion(requestedAt)
	if err != nil {
		v = 0 // Every entry is newer.
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	word := s.entries.get(h)
	return word != 0 && word>>versionBits >= uint64(v)
}

// Compare compares an entry with the known one of its hash: it returns 1 if it is newer, 0 if it is equal, -1
// if it is older.
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

// Derive returns the entry that suppresses by id a record matched by the hash by. It returns false if it
// exists or the id is empty.
func (s *Set) Derive(platform, id string, by Hash) (Hash, Entry, bool) {
	t, ok := typesOf(platform)
	if !ok || strings.TrimSpace(id) == "" {
		return Hash{}, Entry{}, false
	}
	return s.derive(t.id, strings.TrimSpace(id), by)
}

// DeriveAccount is Derive for the username of the erased record.
func (s *Set) DeriveAccount(platform, username string, by Hash) (Hash, Entry, bool) {
	t, ok := typesOf(platform)
	if !ok || username == "" {
		return Hash{}, Entry{}, false
	}
	return s.derive(t.account, username, by)
}

// derive builds an entry with the scope and version of its cause.
func (s *Set) derive(t Type, standard string, by Hash) (Hash, Entry, bool) {
	sum := Sum(standard)
	h := s.key.Hash(t, sum)
	s.mu.RLock()
	cause, known := s.entries.get(by), s.entries.get(h)
	s.mu.RUnlock()
	if h == by || cause == 0 || cause&bitLifted != 0 {
		return Hash{}, Entry{}, false
	}
	if known != 0 && known&bitLifted == 0 && covers(known, cause) {
		return Hash{}, Entry{}, false
	}
	version := max(cause>>versionBits, known>>versionBits)
	if known != 0 { // Withdrawn or narrower: the new entry must be newer.
		version = max(version, known>>versionBits+1)
	}
	e := Entry{
		Type: t, Scope: All, RequestedAt: record.Version(version).String(),
		From: by.String(), Key: s.key.id, Mark: s.key.Mark(t, sum),
	}
	switch {
	case known != 0 && known&bitLifted == 0: // Another scope: combine both.
	case cause&bitCodehost != 0:
		e.Scope = Codehost
	case cause&bitNetwork != 0:
		e.Scope = Network
	}
	return h, e, true
}

// UnsuppressDerived returns the entries that withdraw those among derived (the set's derived entries, by hash) whose
// cause is no longer suppressed, including entries derived from them in turn.
func (s *Set) UnsuppressDerived(derived map[Hash]Entry) map[Hash]Entry {
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
			e.Unsuppressed = true
			out[h] = e
			more = true
		}
	}
	return out
}

// RemovalCount returns the number of applied entries that withdrew a suppression.
func (s *Set) RemovalCount() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.lifts
}

// covers reports whether word a suppresses everything that b does.
func covers(a, b uint64) bool {
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

// InAllScopes reports whether a hash is suppressed in all scopes.
func (s *Set) InAllScopes(h Hash) bool {
	if !s.active() {
		return false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	word := s.entries.get(h)
	return word != 0 && word&(bitLifted|bitCodehost|bitNetwork) == 0
}

// ofTypes reports whether an identifier of the types (a bit set) was ever suppressed. Otherwise none needs to
// be hashed.
func (s *Set) ofTypes(bits uint64) bool { return s.types.Load()&bits != 0 }

// find returns the hash of an identifier, and false if it is not in the set, which the mark decides in most
// cases.
func (s *Set) find(t Type, sum [sha256.Size]byte) (Hash, bool) {
	if s.unmarked.Load()&t.bit() == 0 && !s.marks.Load().has(s.key.mark(t.index(), sum)) {
		return Hash{}, false
	}
	return s.key.Hash(t, sum), true
}

// MarkOf returns the mark of a hash, for writers of another entry who lack the identifier; "" if there is
// none.
func (s *Set) MarkOf(h Hash) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return markText(s.entries.mark(h))
}

// active reports whether anything is suppressed.
func (s *Set) active() bool { return s != nil && s.any.Load() }

// matches reports whether a hash is suppressed for records of a webset: bitCodehost, bitNetwork, or 0 for
// records of neither, which only the scope all suppresses.
func (s *Set) matches(h Hash, webset uint64) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	word := s.entries.get(h)
	if word == 0 || word&bitLifted != 0 {
		return false
	}
	scope := word & (bitCodehost | bitNetwork)
	return scope == 0 || scope == webset
}
