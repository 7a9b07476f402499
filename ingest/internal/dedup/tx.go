package dedup

import (
	"context"
	"errors"
	"os"
)

// Tx locks a set of identities, so that no other Tx, of this process or another, holds one of them.
// It is for use by one goroutine and ends with Commit or Discard.
type Tx struct {
	store      *Store
	identities []Identity
	lookups    []lookup
	locked     []*stripe
	writes     map[id]pendingWrite
}

// lookup is the result of a table lookup.
type lookup struct {
	state State
	ok    bool
}

// pendingWrite is a state that Commit writes.
type pendingWrite struct {
	stripe int
	state  State
}

// Begin waits until it has locked the identities' stripes. Identities may repeat.
func (s *Store) Begin(ctx context.Context, identities []Identity) (*Tx, error) {
	tx := &Tx{store: s, identities: identities, writes: make(map[id]pendingWrite, len(identities))}
	var count [Stripes]int
	for _, i := range identities {
		count[i.stripe]++
	}
	// Locking in order avoids deadlocks.
	for n, entries := range count {
		if entries == 0 {
			continue
		}
		st := &s.stripes[n]
		if err := s.acquire(ctx, st); err != nil {
			return nil, errors.Join(err, tx.Discard())
		}
		tx.locked = append(tx.locked, st)
		st.lookups += entries
		if err := s.reserve(st, entries); err != nil {
			return nil, errors.Join(err, tx.Discard())
		}
	}
	if err := catchFaults("look up dedup entries", tx.lookUp); err != nil {
		return nil, errors.Join(err, tx.Discard())
	}
	return tx, nil
}

// lookUp looks every identity up.
func (tx *Tx) lookUp() error {
	tx.lookups = make([]lookup, len(tx.identities))
	for n, identity := range tx.identities {
		k := &tx.lookups[n]
		slot, found := tx.store.stripes[identity.stripe].table.find(identity.id)
		switch {
		case found:
			k.state, k.ok = decodeEntry(slot), true
		case tx.store.base != nil:
			var err error
			if k.state, k.ok, err = tx.store.lookUpBase(identity); err != nil {
				return err
			}
		}
	}
	return nil
}

// Get returns the state of the n-th identity, including one passed to Set.
func (tx *Tx) Get(n int) (State, bool) {
	if s, ok := tx.writes[tx.identities[n].id]; ok {
		return s.state, true
	}
	return tx.lookups[n].state, tx.lookups[n].ok
}

// Set records the state of the n-th identity for Commit.
func (tx *Tx) Set(n int, state State) {
	identity := tx.identities[n]
	tx.writes[identity.id] = pendingWrite{identity.stripe, state}
}

// Commit writes the states passed to Set and unlocks the identities, also if it fails.
func (tx *Tx) Commit() error {
	err := catchFaults("write dedup entries", func() error {
		for i, s := range tx.writes {
			if err := tx.store.stripes[s.stripe].table.put(i, s.state); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, tx.Discard())
}

// Discard unlocks the identities and writes nothing. It does nothing after Commit.
func (tx *Tx) Discard() error {
	var errs []error
	for _, st := range tx.locked {
		if st.lookups > maxResident/(os.Getpagesize()*Stripes) {
			errs = append(errs, st.dropResidentPages())
		}
		errs = append(errs, tx.store.release(st))
	}
	tx.locked = nil
	return errors.Join(errs...)
}
