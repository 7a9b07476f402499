package sampledata

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// carried returns the handle in an account's newest record; "" if that record is a deletion.
func (w *world) carried(a *account) string {
	if a.withdrawn() || a.platform == onCompany && !w.statesSlug(a.entity-w.firstCompany) {
		return ""
	}
	return w.handleAt(a, a.newestContent())
}

// shownHandles returns the distinct lower-case handles in an account's records, the newest last.
func (w *world) shownHandles(a *account) []string {
	var out []string
	if a.platform == onCompany && !w.statesSlug(a.entity-w.firstCompany) {
		return nil
	}
	for v := range a.versions {
		if a.versions[v].deleted {
			continue
		}
		h := strings.ToLower(w.handleAt(a, a.content[v]))
		out = slices.DeleteFunc(out, func(s string) bool { return s == h })
		out = append(out, h)
	}
	return out
}

// claimants returns the entities that ever had a handle, given one of them.
func (w *world) claimants(p platform, handle string, e int) []int32 {
	if chain := w.contested[p][handleHash(handle)]; chain != nil {
		return chain
	}
	return []int32{int32(e)}
}

// holder returns the entity whose newest record has the handle, or -1. e is any entity that had it. If two
// records have it, the newer one wins (records.md, rule 2).
func (w *world) holder(p platform, handle string, e int) int {
	best, at := -1, int64(0)
	for _, c := range w.claimants(p, handle, e) {
		a := w.account(int(c), p)
		if strings.EqualFold(w.carried(a), handle) && (best < 0 || a.newest().at > at) {
			best, at = int(c), a.newest().at
		}
	}
	return best
}

func (w *world) truthHolder(o *object, key string, p platform, handle string, e int) {
	if h := w.holder(p, handle, e); h >= 0 {
		o.str(key, w.identity(h, p))
	} else {
		o.null(key)
	}
}

func (w *world) writeTruth(m *meter, sink Sink) error {
	var o object
	shared, err := w.sharedEmails(m)
	if err != nil {
		return err
	}
	send := func() error {
		if o.err != nil {
			return fmt.Errorf("write truth: %w", o.err)
		}
		return sink.Truth(o.b)
	}
	done := map[uint64]bool{}
	for e := range w.entities {
		if err := m.step(1); err != nil {
			return fmt.Errorf("write truth: %w", err)
		}
		if w.state[e].has == 0 {
			continue
		}
		o.reset()
		w.truthEntity(&o, e)
		if err := send(); err != nil {
			return err
		}
		if err := w.truthHandles(&o, e, send); err != nil {
			return err
		}
		if err := w.truthEmails(&o, e, shared, done, send); err != nil {
			return err
		}
	}
	m.finish()
	return nil
}

func (w *world) truthEntity(o *object, e int) {
	o.open()
	o.str("type", "entity")
	cl := w.class(e)
	o.str("class", cl.String())
	switch cl {
	case classPerson:
		o.num("index", int64(e))
		name := w.personName(e)
		o.str("name", name.latin(0, false))
		o.text("native_name", name.nativeFull())
		if n := w.namesake(e); n != e {
			o.num("namesake_of", int64(n))
		}
	case classCompany:
		o.num("index", int64(e-w.firstCompany))
		o.str("name", w.companies[e-w.firstCompany].name)
		if w.statesNetworkID(e - w.firstCompany) {
			o.str("network_id", w.companyNetworkID(int32(e-w.firstCompany)))
		}
	default:
		o.num("index", int64(e))
		o.str("name", w.officialName(e))
	}
	o.openListKey("accounts")
	var emails []string
	for q := range platforms {
		if !w.state[e].on(q) {
			continue
		}
		a := w.account(e, q)
		o.open()
		o.str("platform", q.String())
		o.str("identity", w.identity(e, q))
		now := w.carried(a)
		if now != "" {
			o.str("username", now)
		} else {
			o.null("username")
		}
		o.str("actual_username", w.handleAt(a, w.now))
		o.list("former", slices.DeleteFunc(w.shownHandles(a), func(s string) bool { return strings.EqualFold(s, now) }))
		o.instant("last_updated", a.newest().at)
		o.boolean("withdrawn", a.withdrawn())
		o.close()
		list := w.newestEmails(a)
		for _, s := range list {
			if !slices.Contains(emails, s) {
				emails = append(emails, s)
			}
		}
	}
	o.closeList()
	w.truthLinks(o, e)
	o.list("emails", emails)
	o.close()
}

func (w *world) newestEmails(a *account) []string {
	if a.withdrawn() {
		return nil
	}
	if w.class(a.entity) != classPerson {
		return w.brandEmails(a)
	}
	list, _ := w.emailsOn(a, len(a.versions)-1)
	return list
}

func (w *world) truthLinks(o *object, e int) {
	end := func(key string, p platform, handle string) {
		o.openKey(key)
		o.str("platform", p.String())
		o.str("username", handle)
		o.close()
	}
	o.openListKey("links")
	for _, c := range w.claims(e) {
		a := w.account(e, c.from)
		if a.withdrawn() {
			continue
		}
		h := w.target(&c, a.newestContent())
		o.open()
		end("from", c.from, w.carried(a))
		end("to", c.to, h)
		o.str("via", c.field)
		o.boolean("declared", c.declared())
		o.boolean("own", !c.wrong)
		w.linkHolder(o, c.to, h, c.entity, c.typo != "")
		o.close()
	}
	for _, l := range w.accountLinks(e) {
		o.open()
		end("from", l.a, l.ha)
		end("to", l.b, l.hb)
		o.str("via", AccountLink)
		o.boolean("declared", true)
		o.boolean("own", !l.wrong)
		o.str("source", l.source)
		o.instant("observed_at", l.observed)
		o.boolean("withdrawn", l.deleted)
		o.close()
	}
	o.closeList()
}

func (w *world) linkHolder(o *object, p platform, handle string, e int, typo bool) {
	if typo {
		// A misspelled handle may exist by chance; the truth leaves this open.
		return
	}
	w.truthHolder(o, "holder", p, handle, e)
}

func (w *world) truthHandles(o *object, e int, send func() error) error {
	for p := range platforms {
		if !w.state[e].on(p) {
			continue
		}
		for _, h := range w.shownHandles(w.account(e, p)) {
			var showing []int
			for _, c := range w.claimants(p, h, e) {
				if !slices.Contains(showing, int(c)) && slices.Contains(w.shownHandles(w.account(int(c), p)), h) {
					showing = append(showing, int(c))
				}
			}
			if len(showing) == 0 || showing[0] != e {
				continue // Written with its first claimant.
			}
			o.reset()
			o.open()
			o.str("type", "handle")
			o.str("platform", p.String())
			o.str("handle", h)
			w.truthHolder(o, "holder", p, h, e)
			o.openListKey("claimants")
			for _, c := range showing {
				o.item(w.identity(c, p))
			}
			o.closeList()
			if owner := w.userNumbered(h); p == onCodehost && owner >= 0 {
				o.str("numeric_user_id", h)
			}
			o.close()
			if err := send(); err != nil {
				return err
			}
		}
	}
	return nil
}

// userNumbered returns the entity whose code-hosting user id is spelled by a handle, or -1 if no record has
// it.
func (w *world) userNumbered(handle string) int {
	n, err := strconv.ParseUint(handle, 10, 63)
	if err != nil || n < 1000 || n-1000 >= w.permUser.size {
		return -1
	}
	e := w.permUser.index(n - 1000)
	if e >= uint64(w.entities) || !w.state[e].on(onCodehost) {
		return -1
	}
	return int(e)
}

// sharedEmails finds the addresses in newest records of several entities by sorting the hashes of all
// addresses, 16 bytes each.
func (w *world) sharedEmails(m *meter) (map[uint64][]int32, error) {
	type stated struct {
		hash   uint64
		entity int32
	}
	var all []stated
	for e := range w.entities {
		if e%4096 == 0 {
			if err := m.ctx.Err(); err != nil {
				return nil, fmt.Errorf("collect e-mail addresses: %w", err)
			}
		}
		for _, s := range w.statedBy(e) {
			all = append(all, stated{xxhash.Sum64String(s), int32(e)})
		}
	}
	slices.SortFunc(all, func(a, b stated) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.entity, b.entity))
	})
	shared := map[uint64][]int32{}
	for i := 1; i < len(all); i++ {
		if all[i].hash != all[i-1].hash {
			continue
		}
		if shared[all[i].hash] == nil {
			shared[all[i].hash] = []int32{all[i-1].entity}
		}
		shared[all[i].hash] = append(shared[all[i].hash], all[i].entity)
	}
	return shared, nil
}

// statedBy returns the distinct addresses in an entity's newest records.
func (w *world) statedBy(e int) []string {
	if w.state[e].has&(1<<onNetwork|1<<onCodehost) == 0 {
		return nil
	}
	var out []string
	for q := onNetwork; q <= onCodehost; q++ {
		if !w.state[e].on(q) {
			continue
		}
		a := w.account(e, q)
		for _, s := range w.newestEmails(a) {
			if !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	return out
}

func (w *world) truthEmails(
	o *object, e int, shared map[uint64][]int32, done map[uint64]bool, send func() error,
) error {
	for _, s := range w.statedBy(e) {
		h := xxhash.Sum64String(s)
		holders := []int32{int32(e)}
		if list, ok := shared[h]; ok {
			if done[h] {
				continue
			}
			done[h] = true
			holders = list
		}
		var best [2]int
		var at [2]int64
		for q := onNetwork; q <= onCodehost; q++ {
			best[q] = -1
			for _, c := range holders {
				if !w.state[c].on(q) {
					continue
				}
				a := w.account(int(c), q)
				if slices.Contains(w.newestEmails(a), s) && (best[q] < 0 || a.newest().at > at[q]) {
					best[q], at[q] = int(c), a.newest().at
				}
			}
		}
		o.reset()
		o.open()
		o.str("type", "email")
		o.str("email", s)
		for q := onNetwork; q <= onCodehost; q++ {
			if best[q] >= 0 {
				o.str(q.String(), w.identity(best[q], q))
			} else {
				o.null(q.String())
			}
		}
		newest := onNetwork
		if best[0] < 0 || best[1] >= 0 && at[1] > at[0] {
			newest = onCodehost
		}
		o.str("newest", newest.String())
		o.boolean("shared", len(holders) > 1)
		o.close()
		if err := send(); err != nil {
			return err
		}
	}
	return nil
}
