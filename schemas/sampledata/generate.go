package sampledata

import (
	"context"
	"fmt"
	"slices"
)

// World is a generated world, for callers that want parts of it. [Generate] and
// [WriteFiles] make one themselves. It is not safe for concurrent use.
//
// The truth has one JSON object a line, told apart by "type":
//
//	entity  class (person, company, bot, community, government), index, name,
//	        native_name, namesake_of, accounts, links, emails, network_id. An
//	        account has platform, identity, username (as its newest record has it,
//	        null when that record withdraws it), actual_username (what it is called
//	        today, whether a crawler has seen that or not), former (handles of
//	        its older records), last_updated, withdrawn. A link has from and
//	        to ({platform, username} as written), via (username, social_accounts,
//	        bio, website, account-link), declared, own (it names the same
//	        entity's account), holder (identity that holds the named handle, or
//	        null) and, for account-link, source and withdrawn. emails are those
//	        that newest records state.
//	handle  platform, handle (lower case), holder (identity whose newest record
//	        carries it, the newer record if two do, or null), claimants
//	        (identities that ever carried it), numeric_user_id (set when a
//	        code-hosting handle of digits is also the user id of a record, which
//	        is what a lookup by digits finds first).
//	email   email (lower case), network and codehost (the identity on that
//	        webset with the most recently updated record that states it, or
//	        null), newest ("network" or "codehost", which of the two is newer),
//	        shared (stated by newest records of several entities).
type World struct{ w *world }

// New derives the data shared by all parts: companies and the owners of handles. It takes about a third of
// the time of a generation.
func New(ctx context.Context, o Options) (*World, error) {
	w, err := newWorld(ctx, o)
	if err != nil {
		return nil, err
	}
	return &World{w}, nil
}

// Generate writes all records to the sink, by kind in the order of [Kinds], then the ground truth. progress,
// if not nil, is called about a thousand times. Generate returns the context's error when ctx ends.
func Generate(ctx context.Context, o Options, sink Sink, progress func(done, total int)) error {
	x, err := New(ctx, o)
	if err != nil {
		return err
	}
	return x.Write(ctx, sink, progress)
}

// Write is [Generate] for an existing World.
func (x *World) Write(ctx context.Context, sink Sink, progress func(done, total int)) error {
	w := x.w
	m := meter{ctx: ctx, progress: progress, people: w.people, total: w.entities * (len(Kinds()) + 1)}
	for _, kind := range Kinds() {
		if err := w.writeKind(&m, kind, sink); err != nil {
			return err
		}
	}
	return w.writeTruth(&m, sink)
}

// WriteKinds writes the records of some kinds only, as Write does, without the ground truth.
func (x *World) WriteKinds(ctx context.Context, kinds []string, sink Sink) error {
	w := x.w
	m := meter{ctx: ctx, people: w.people, total: w.entities * max(1, len(kinds))}
	for _, kind := range kinds {
		if !slices.Contains(Kinds(), kind) {
			return fmt.Errorf("write %q: unknown kind", kind)
		}
		if err := w.writeKind(&m, kind, sink); err != nil {
			return err
		}
	}
	return nil
}

// meter reports progress and watches for cancellation.
type meter struct {
	ctx                 context.Context
	progress            func(done, total int)
	people, total, done int
	credit              int
}

func (m *meter) step(n int) error {
	m.credit += n
	if m.credit < max(m.total/1000, 64) {
		return nil
	}
	m.done, m.credit = m.done+m.credit, 0
	if m.progress != nil {
		m.progress(int(float64(m.people)*float64(m.done)/float64(m.total)), m.people)
	}
	return m.ctx.Err()
}

func (m *meter) finish() {
	if m.progress != nil {
		m.progress(m.people, m.people)
	}
}

// emitter writes one kind, one slot of an entity at a time. Slots keep the versions of one account apart in
// the file.
type emitter struct {
	slots int
	emit  func(e, slot int) error
}

// writeKind visits all slots of all entities in an order specific to the kind.
func (w *world) writeKind(m *meter, kind string, sink Sink) error {
	em := w.emitter(kind, sink)
	p := platforms
	for q := range platforms {
		if q.kind() == kind {
			p = q
		}
	}
	if p < platforms {
		for e := range w.state {
			w.state[e].emitted[p] = 0
		}
	}
	size := uint64(w.entities) * uint64(em.slots)
	order := newPermutation(size, mix(w.seed, streamOrder, uint64(len(kind)), uint64(kind[0]),
		uint64(kind[len(kind)-1])))
	for i := range size {
		if i%uint64(em.slots) == 0 {
			if err := m.step(1); err != nil {
				return fmt.Errorf("write %s: %w", kind, err)
			}
		}
		at := order.at(i)
		e := int(at / uint64(em.slots))
		slot := int(at % uint64(em.slots))
		if p < platforms {
			if !w.state[e].on(p) {
				continue
			}
			slot = w.turn(e, p)
		}
		if err := em.emit(e, slot); err != nil {
			return fmt.Errorf("write %s: %w", kind, err)
		}
	}
	return nil
}

// turn returns the version for an account's next slot: mostly the oldest one not yet written, so that files
// are nearly in order; for a fifth of accounts in any order, as from several crawlers.
func (w *world) turn(e int, p platform) int {
	s := &w.state[e]
	n := int(s.emitted[p])
	s.emitted[p]++
	r := rng(mix(w.seed, streamOrder, uint64(e), uint64(p)))
	if !r.chance(20) {
		return n
	}
	order := [personSlots]int{0, 1, 2, 3, 4, 5}
	for i := range order {
		j := i + r.n(len(order)-i)
		order[i], order[j] = order[j], order[i]
	}
	return order[n]
}

// personSlots is the maximum number of records of one account: three versions, a deletion, a return, and a
// repetition.
const personSlots = 6

func (w *world) emitter(kind string, sink Sink) emitter {
	var o object
	send := func() error {
		if o.err != nil {
			return fmt.Errorf("write JSON: %w", o.err)
		}
		return sink.Record(kind, o.b)
	}
	versions := func(p platform, render func(a *account, v int)) emitter {
		return emitter{slots: personSlots, emit: func(e, v int) error {
			if !w.state[e].on(p) {
				return nil
			}
			a := w.account(e, p)
			if v >= len(a.versions) {
				// One repetition of a record for one account in a hundred.
				if x := mix(w.seed, streamOrder, uint64(e), uint64(p), 5); v != personSlots-1 || x%100 != 0 {
					return nil
				}
				v = int(mix(w.seed, streamOrder, uint64(e), uint64(p), 6) % uint64(len(a.versions)))
			}
			o.reset()
			if a.versions[v].deleted {
				w.renderWithdrawal(&o, a, v)
			} else {
				render(a, v)
			}
			return send()
		}}
	}
	individual := func(e int) *person {
		if w.class(e) == classPerson {
			return w.person(e)
		}
		return nil
	}
	switch kind {
	case NetworkCompany:
		return versions(onCompany, func(a *account, v int) { w.renderCompany(&o, a, v) })
	case NetworkPerson:
		return versions(onNetwork, func(a *account, v int) { w.renderNetwork(&o, a, v, w.person(a.entity)) })
	case CodehostPerson:
		return versions(onCodehost, func(a *account, v int) { w.renderCodehost(&o, a, v, individual(a.entity)) })
	case MicroblogPerson:
		return versions(onMicroblog, func(a *account, v int) { w.renderMicroblog(&o, a, v, individual(a.entity)) })
	case CodehostRepo:
		return emitter{slots: 1, emit: func(e, _ int) error { return w.emitRepos(&o, e, send) }}
	case CodehostCommit:
		return emitter{slots: 1, emit: func(e, _ int) error { return w.emitCommits(&o, e, individual, send) }}
	}
	return emitter{slots: 1, emit: func(e, _ int) error {
		for _, l := range w.accountLinks(e) {
			o.reset()
			w.renderLink(&o, &l)
			if err := send(); err != nil {
				return err
			}
		}
		return nil
	}}
}

func (w *world) emitRepos(o *object, e int, send func() error) error {
	if !w.state[e].on(onCodehost) {
		return nil
	}
	act := w.activity(e)
	if !act.separate || act.repos == 0 {
		return nil
	}
	a := w.account(e, onCodehost)
	tech := w.techFor(e)
	for k := range act.repos {
		x := w.repo(a, k, tech)
		newest := x.pushedAt(w.now)
		r := rng(mix(x.id, 9))
		if r.chance(9) && newest > 0 && x.pushes[newest-1] < x.pushes[newest] {
			o.reset()
			w.writeRepo(o, a, &x, newest-1, true)
			if err := send(); err != nil {
				return err
			}
		}
		o.reset()
		w.writeRepo(o, a, &x, newest, true)
		if err := send(); err != nil {
			return err
		}
		if x.removed != 0 && x.removed < w.now {
			o.reset()
			o.open()
			o.boolean("deleted", true)
			o.num("user_id", w.userID(e))
			o.num("id", int64(x.id))
			o.instant("updated_at", x.removed)
			o.close()
			if err := send(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *world) emitCommits(o *object, e int, individual func(int) *person, send func() error) error {
	if !w.state[e].on(onCodehost) {
		return nil
	}
	act := w.activity(e)
	if !act.separate || act.commits == 0 {
		return nil
	}
	a := w.account(e, onCodehost)
	p, tech := individual(e), w.techFor(e)
	for k := range act.commits {
		o.reset()
		w.writeCommit(o, a, act, k, p, tech, true)
		if err := send(); err != nil {
			return err
		}
	}
	return nil
}
