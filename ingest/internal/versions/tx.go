package versions

import (
	"context"
	"errors"
	"os"
)

// Tx holds a number of identities, so that no other Tx, of this process or
// another, holds one of them. It is used by one goroutine and ends with Commit or
// Discard.
type Tx struct {
	store      *Store
	identities []Identity
	known      []known
	held       []*stripe
	set        map[id]setting
}

// known is what the table has.
type known struct {
	state State
	ok    bool
}

// setting is what Set was told.
type setting struct {
	stripe int
	state  State
}

// Begin waits until nobody else holds the identities' stripes. The identities may
// repeat.
func (s *Store) Begin(ctx context.Context, identities []Identity) (*Tx, error) {
	tx := &Tx{store: s, identities: identities, set: make(map[id]setting, len(identities))}
	var count [Stripes]int
	for _, i := range identities {
		count[i.stripe]++
	}
	for n, entries := range count { // in order: so nobody waits in a circle
		if entries == 0 {
			continue
		}
		st := &s.stripes[n]
		if err := s.acquire(ctx, st); err != nil {
			return nil, errors.Join(err, tx.Discard())
		}
		tx.held = append(tx.held, st)
		st.looked += entries
		if err := s.reserve(st, entries); err != nil {
			return nil, errors.Join(err, tx.Discard())
		}
	}
	if err := guarded("look up versions", tx.read); err != nil {
		return nil, errors.Join(err, tx.Discard())
	}
	return tx, nil
}

// read looks every identity up.
func (tx *Tx) read() error {
	tx.known = make([]known, len(tx.identities))
	for n, who := range tx.identities {
		k := &tx.known[n]
		slot, found := tx.store.stripes[who.stripe].table.find(who.id)
		switch {
		case found:
			k.state, k.ok = get(slot), true
		case tx.store.base != nil:
			var err error
			if k.state, k.ok, err = tx.store.peek(who); err != nil {
				return err
			}
		}
	}
	return nil
}

// Get returns what is known of the n-th identity, what was Set included.
func (tx *Tx) Get(n int) (State, bool) {
	if s, ok := tx.set[tx.identities[n].id]; ok {
		return s.state, true
	}
	return tx.known[n].state, tx.known[n].ok
}

// Set notes the state of the n-th identity. Commit writes it.
func (tx *Tx) Set(n int, state State) {
	who := tx.identities[n]
	tx.set[who.id] = setting{who.stripe, state}
}

// Commit writes what was Set and lets the identities go, with an error too.
func (tx *Tx) Commit() error {
	err := guarded("note versions", func() error {
		for i, s := range tx.set {
			if err := tx.store.stripes[s.stripe].table.put(i, s.state); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, tx.Discard())
}

// Discard lets the identities go and writes nothing. It does nothing after Commit.
func (tx *Tx) Discard() error {
	var errs []error
	for _, st := range tx.held {
		if st.looked > maxResident/(os.Getpagesize()*Stripes) {
			errs = append(errs, st.forget())
		}
		errs = append(errs, tx.store.release(st))
	}
	tx.held = nil
	return errors.Join(errs...)
}
