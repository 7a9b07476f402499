package sampledata

import (
	"context"
	"fmt"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// registry records the taken handles of a platform by hash; a collision only causes another choice.
type registry map[uint64]holding

type holding struct {
	entity int32
	freed  uint16 // day since 2000-01-01 from which it is free; neverFreed while held
}

const (
	neverFreed = 0xffff
	day        = 24 * 60 * 60 * 1000
	epoch2000  = 946684800000 // Unix milliseconds of 2000-01-01
)

func dayOf(ms int64) uint16 { return uint16((ms - epoch2000) / day) }

func handleHash(h string) uint64 { return xxhash.Sum64String(strings.ToLower(h)) }

// slot is one handle of one account: before (era 0) or after its rename.
type slot struct {
	entity   int32
	platform platform
	era      uint8
}

// recycledAttempt marks a handle taken over unchanged from another account, not built by candidate.
const recycledAttempt = 255

// releasedHandle is a released handle and the time of its release.
type releasedHandle struct {
	slot
	day uint16
}

// allocate assigns handles to all accounts. People request preferred handles; if one is taken they try
// another; if it was released long enough ago they get it, which creates recycled handles.
func (w *world) allocate(ctx context.Context) error {
	al := allocator{w: w}
	for p := range al.reg {
		al.reg[p] = registry{}
		w.contested[p] = map[uint64][]int32{}
	}
	// Companies first: their domains appear in people's e-mail addresses.
	turn := newPermutation(uint64(w.entities), mix(w.seed, streamOrder, 99))
	for pass := range 2 {
		for i := range w.entities {
			if i%4096 == 0 && ctx.Err() != nil {
				return fmt.Errorf("allocate handles: %w", ctx.Err())
			}
			e := int(turn.at(uint64(i)))
			s := &w.state[e]
			if pass == 0 {
				s.has = w.presence(e)
				if w.class(e) == classPerson {
					w.accounts += boolInt(s.on(onNetwork)) + boolInt(s.on(onCodehost))
					w.pairs += boolInt(s.on(onNetwork) && s.on(onCodehost))
				}
			}
			var nm *naming
			if pass == 1 && s.has != 1<<onCompany {
				nm = w.naming(e)
			}
			for p := range platforms {
				if s.on(p) && (p == onCompany) == (pass == 0) {
					if err := al.account(nm, e, p); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// allocator is the state needed during allocation only.
type allocator struct {
	w    *world
	reg  [platforms]registry
	pool [platforms][]releasedHandle
}

// account chooses the one or two handles of an account.
func (al *allocator) account(nm *naming, e int, p platform) error {
	w := al.w
	a := w.account(e, p)
	for era := range 2 {
		from, until := a.created, int64(0)
		if era == 1 {
			if a.renamed == 0 {
				break
			}
			from = a.renamed
		} else {
			until = a.renamed
		}
		if until == 0 && a.withdrawn() {
			until = a.newest().at
		}
		mine := slot{int32(e), p, uint8(era)}
		handle, attempt := al.takeOver(nm, mine, from), recycledAttempt
		for k := 0; handle == ""; k++ {
			if k >= recycledAttempt {
				return fmt.Errorf("no free handle for entity %d on %s", e, p)
			}
			if h := w.candidate(nm, e, p, era, k); h != "" && al.free(p, h, from) {
				handle, attempt = h, k
			}
		}
		w.state[e].attempt[p][era] = uint8(attempt)
		al.take(mine, handle, until)
	}
	return nil
}

// free reports whether the handle has been unused for thirty days.
func (al *allocator) free(p platform, handle string, from int64) bool {
	old, taken := al.reg[p][handleHash(handle)]
	return !taken || old.freed != neverFreed && old.freed+30 < dayOf(from)
}

func (al *allocator) take(s slot, handle string, until int64) {
	w, h := al.w, handleHash(handle)
	if old, taken := al.reg[s.platform][h]; taken {
		chain := w.contested[s.platform][h]
		if chain == nil {
			chain = []int32{old.entity}
		}
		w.contested[s.platform][h] = append(chain, s.entity)
	}
	held := holding{entity: s.entity, freed: neverFreed}
	if until != 0 {
		held.freed = dayOf(until)
		al.pool[s.platform] = append(al.pool[s.platform], releasedHandle{s, held.freed})
	}
	al.reg[s.platform][h] = held
	if s.platform == onCompany {
		i := int(s.entity) - w.firstCompany
		w.companySlug[i] = handle
		if s.era == 0 {
			w.companies[i].domain = handle + ".example"
		}
	}
}

// takeOver gives some people a good released handle: one that fits their name, or that is not a name.
func (al *allocator) takeOver(nm *naming, s slot, from int64) string {
	w, pool := al.w, al.pool[s.platform]
	r := rng(mix(w.seed, streamHandle, uint64(s.entity), uint64(s.platform), uint64(s.era), 0xface))
	if nm == nil || nm.class != classPerson || len(pool) == 0 || !r.chance(8) {
		return ""
	}
	contested := r.chance(40) // one that the former owner's newest record still has
	for try := range 120 {
		f := pool[r.n(len(pool))]
		if f.entity == s.entity || f.day+30 >= dayOf(from) {
			continue
		}
		if a := w.account(int(f.entity), f.platform); contested && try < 80 && (a.withdrawn() || f.era == 1 ||
			a.newestContent() >= a.renamed) {
			continue
		}
		handle := w.handle(int(f.entity), f.platform, int(f.era))
		word := handleWord(handle)
		fits := len(nm.given) > 3 && strings.Contains(word, nm.given) || len(nm.family) > 3 &&
			strings.Contains(word, nm.family)
		if other := w.naming(int(f.entity)); !fits && s.platform != onNetwork && other.class == classPerson {
			fits = other.relation(s.platform) >= pseudonymOwn
		}
		if fits && al.free(s.platform, handle, from) {
			w.recycled[s] = f.slot
			return handle
		}
	}
	return ""
}
