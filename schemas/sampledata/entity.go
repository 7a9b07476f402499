package sampledata

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
)

// Purposes of random streams; a stream is (seed, purpose, index).
const (
	streamName = iota + 1
	streamPerson
	streamAccount
	streamHandle
	streamCompany
	streamSchool
	streamAvatar
	streamRender
	streamLinks
	streamEmail
	streamRepos
	streamCommits
	streamOrder
	streamID
	streamTwin
	streamPseudonym
	streamExtraLinks
)

// platform is a namespace of handles. Companies have a namespace for their slugs.
type platform uint8

const (
	onNetwork platform = iota
	onCodehost
	onMicroblog
	onCompany
	platforms
)

func (p platform) String() string {
	return [...]string{"network", "codehost", "microblog", "network-company"}[p]
}

func (p platform) kind() string {
	return [...]string{NetworkPerson, CodehostPerson, MicroblogPerson, NetworkCompany}[p]
}

// Entities are numbered: people first, then companies, bots and communities,
// public bodies.
type entityClass uint8

const (
	classPerson entityClass = iota
	classCompany
	classBot
	classCommunity
	classGovernment
)

func (c entityClass) String() string {
	return [...]string{"person", "company", "bot", "community", "government"}[c]
}

// entityState is the state kept per entity for the whole run.
type entityState struct {
	attempt [platforms][2]uint8 // which candidate became the handle, before and after a rename
	has     uint8               // bit per platform
	emitted [platforms]uint8    // versions already written, while a kind is written
}

func (s *entityState) on(p platform) bool { return s.has&(1<<p) != 0 }

// world is the state of one generation.
type world struct {
	opts Options
	seed uint64
	now  int64 // Unix milliseconds
	year int
	lx   *lexicon

	people, firstCompany, firstBot, firstCommunity, firstGov, entities int
	// of people on network and codehost: with both accounts, all accounts
	pairs, accounts int

	companies   []company
	companiesIn [][]int32
	schools     []school // by city, then form
	companySlug []string // slug at the end of the slug's history
	state       []entityState
	contested   [platforms]map[uint64][]int32 // handle hash -> owners in order of taking, if there were several
	recycled    map[slot]slot                 // who took over whose released handle unchanged

	// Caches of derived values, by index modulo the size: one entity's records need the same person many
	// times. Entries are immutable.
	recentPeople [16]*person
	recentNaming [256]namingEntry

	permUser, permProfile, permCompany, permCompanyNet, permRepo permutation
}

func newWorld(ctx context.Context, o Options) (*world, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	lx, err := loadLexicon()
	if err != nil {
		return nil, fmt.Errorf("load word lists: %w", err)
	}
	w := &world{opts: o, seed: mix(0x6d75737465720001, o.Seed), now: o.Now.UnixMilli(), year: o.Now.Year(), lx: lx,
		people: o.People}
	w.makeCompanies()
	w.makeSchools()
	w.firstCompany = w.people
	w.firstBot = w.firstCompany + len(w.companies)
	w.firstCommunity = w.firstBot + max(5, w.people/150)
	w.firstGov = w.firstCommunity + max(5, w.people/250)
	w.entities = w.firstGov + max(5, w.people/400)
	e := uint64(w.entities)
	w.permUser = newPermutation(max(1<<24, e*8), mix(w.seed, streamID, 1))
	w.permProfile = newPermutation(1<<52, mix(w.seed, streamID, 2))
	w.permCompany = newPermutation(max(1<<26, e*8), mix(w.seed, streamID, 3))
	w.permCompanyNet = newPermutation(max(1<<24, e*8), mix(w.seed, streamID, 4))
	w.permRepo = newPermutation(e*maxRepos*3, mix(w.seed, streamID, 5))
	w.state = make([]entityState, w.entities)
	w.recycled = map[slot]slot{}
	w.companySlug = make([]string, len(w.companies))
	if err := w.allocate(ctx); err != nil {
		return nil, err
	}
	return w, nil
}

type namingEntry struct {
	e  int
	nm *naming
}

func (w *world) class(e int) entityClass {
	switch {
	case e < w.people:
		return classPerson
	case e < w.firstBot:
		return classCompany
	case e < w.firstCommunity:
		return classBot
	case e < w.firstGov:
		return classCommunity
	}
	return classGovernment
}

// presence decides on which platforms an entity has an account.
func (w *world) presence(e int) uint8 {
	r := rng(mix(w.seed, streamPerson, uint64(e), 1))
	bit := func(p platform, percent float64) uint8 {
		if r.chance(percent) {
			return 1 << p
		}
		return 0
	}
	switch w.class(e) {
	case classCompany:
		code, micro := 16.0, 30.0
		if w.lx.industries[w.companies[e-w.firstCompany].industry].kind == "software" {
			code = 60
		}
		return 1<<onCompany | bit(onCodehost, code) | bit(onMicroblog, micro)
	case classBot, classCommunity:
		return 1 << onCodehost
	case classGovernment:
		return 1 << onMicroblog
	}
	codeRate := map[string]float64{"software": 68, "data": 60, "science": 36, "finance": 10, "business": 9,
		"creative": 14, "education": 13, "health": 4, "operations": 11}
	pr := w.fieldOf(e)
	out := bit(onCodehost, codeRate[w.lx.fields[pr].name])
	if out != 0 {
		out |= bit(onMicroblog, 34)
	} else {
		out |= bit(onMicroblog, 20)
	}
	if out == 0 {
		return 1 << onNetwork
	}
	return out | bit(onNetwork, 66)
}

// version is one record of an account: its crawl time, and whether it deletes the account.
type version struct {
	at      int64
	deleted bool
}

// account is the history of one account, derived on demand.
type account struct {
	entity   int
	platform platform
	created  int64
	renamed  int64 // 0 if never
	versions []version
	content  []int64 // moment that a version's content shows; an unchanged refresh shows the earlier one
	store    [5]version
	moments  [5]int64
}

func (a *account) newest() *version { return &a.versions[len(a.versions)-1] }

// withdrawn reports whether the newest record is a deletion.
func (a *account) withdrawn() bool { return a.newest().deleted }

// newestContent returns the time of the newest record's content.
func (a *account) newestContent() int64 { return a.content[len(a.content)-1] }

func (w *world) account(e int, p platform) *account {
	r := rng(mix(w.seed, streamAccount, uint64(e), uint64(p)))
	a := &account{entity: e, platform: p}
	first := [platforms]int64{4 * 365, 8 * 365, 7 * 365, 4 * 365}[p] * day
	span := w.now - epoch2000 - first - 150*day
	a.created = epoch2000 + first + int64(r.f()*float64(span))/1000*1000
	// The newest crawl: mostly recent, some accounts have not been seen for years.
	var age float64
	switch u := r.f(); {
	case u < 0.80:
		age = r.f() * 400
	case u < 0.95:
		age = 400 + r.f()*800
	default:
		age = 1200 + r.f()*1300
	}
	renameRate := [platforms]float64{5, 7, 9, 4}[p]
	renamed, unseen := r.chance(renameRate), r.chance(25)
	if renamed && unseen { // renamed since the last crawl, long ago
		age = 300 + r.f()*2000
	}
	newest := w.now - int64(age*float64(day))
	if earliest := a.created + 20*day; newest < earliest {
		newest = earliest + int64(r.f()*float64(w.now-earliest))
	}
	newest = w.roundCrawl(&r, newest)
	switch {
	case !renamed:
	case unseen:
		a.renamed = newest + int64((0.05+0.6*r.f())*float64(w.now-newest))
	case r.chance(70): // crawled before and after the rename
		a.renamed = a.created + 10*day + int64(r.f()*float64(newest-a.created-12*day))
	default:
		a.renamed = a.created + 10*day + int64(r.f()*float64(w.now-a.created-15*day))
	}
	n := 1
	switch u := r.n(100); {
	case u < 7:
		n = 3
	case u < 28:
		n = 2
	}
	if a.renamed != 0 && a.renamed < newest && n == 1 && r.chance(65) {
		n = 2
	}
	a.versions, a.content = a.store[:0], a.moments[:0]
	for i := n - 1; i > 0; i-- {
		at := newest - int64(float64(i)*(20+r.f()*300)*float64(day))
		if a.renamed != 0 && i == n-1 && r.chance(70) {
			at = a.created + int64(r.f()*float64(a.renamed-a.created))
		}
		at = w.roundCrawl(&r, at)
		if at <= a.created+2*day || at >= newest || len(a.versions) > 0 && at <= a.versions[len(a.versions)-1].at {
			continue
		}
		a.versions = append(a.versions, version{at: at})
	}
	a.versions = append(a.versions, version{at: newest})
	for i, v := range a.versions {
		moment := v.at
		if i > 0 && r.chance(20) && (a.renamed == 0 || a.renamed > v.at || a.renamed <= a.content[i-1]) {
			moment = a.content[i-1]
		}
		a.content = append(a.content, moment)
	}
	switch u := r.n(1000); {
	case u < 15 && newest < w.now-10*day:
		at := w.roundCrawl(&r, newest+5*day+int64(r.f()*float64(w.now-newest-8*day)))
		a.versions = append(a.versions, version{at: at, deleted: true})
		a.content = append(a.content, at)
	case u < 19 && len(a.versions) > 1: // deleted once and restored
		last := len(a.versions) - 1
		mid := (a.versions[last].at + a.versions[last-1].at) / 2
		a.versions = append(a.versions, a.versions[last])
		a.versions[last] = version{at: mid, deleted: true}
		a.content = append(a.content, a.content[last])
		a.content[last] = mid
		a.content[last+1] = a.versions[last+1].at
	}
	return a
}

// roundCrawl rounds a crawl time to seconds or milliseconds, as different crawlers do.
func (w *world) roundCrawl(r *rng, at int64) int64 {
	if r.chance(70) {
		at = at / 1000 * 1000
	}
	return min(at, w.now-1000)
}

// handleAt returns the account's handle at a time.
func (w *world) handleAt(a *account, at int64) string {
	era := 0
	if a.renamed != 0 && at >= a.renamed {
		era = 1
	}
	return w.handle(a.entity, a.platform, era)
}

func (w *world) handle(e int, p platform, era int) string {
	if p == onCompany {
		return w.handleWith(nil, e, p, era)
	}
	return w.handleWith(w.naming(e), e, p, era)
}

func (w *world) handleWith(nm *naming, e int, p platform, era int) string {
	attempt := w.state[e].attempt[p][era]
	if attempt == recycledAttempt {
		from := w.recycled[slot{int32(e), p, uint8(era)}]
		return w.handle(int(from.entity), p, int(from.era))
	}
	return w.candidate(nm, e, p, era, int(attempt))
}

// growth returns the fraction of an account's counters reached at a time, 0 to 1.
func growth(a *account, at int64) float64 {
	newest := a.newestContent()
	if newest <= a.created {
		return 1
	}
	return max(0, min(1, float64(at-a.created)/float64(newest-a.created)))
}

func (w *world) userID(e int) int64 { return int64(w.permUser.at(uint64(e))) + 1000 }

// identity returns the stable id of an account in its records.
func (w *world) identity(e int, p platform) string {
	switch p {
	case onNetwork:
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], w.permProfile.at(uint64(e)))
		return crockford(b[1:])
	case onCodehost:
		return strconv.FormatInt(w.userID(e), 10)
	case onMicroblog:
		return strconv.FormatUint(1e17+w.permProfile.at(uint64(e)+1<<40)*97, 10)
	}
	return w.companyID(int32(e - w.firstCompany))
}

// crockford encodes in Crockford's base 32, most significant bits first.
func crockford(b []byte) string {
	const digits = "0123456789abcdefghjkmnpqrstvwxyz"
	var n uint64
	for _, c := range b {
		n = n<<8 | uint64(c)
	}
	out := make([]byte, 11)
	for i := len(out) - 1; i >= 0; i-- {
		out[i] = digits[n&31]
		n >>= 5
	}
	return string(out)
}

func hex16(n uint64) string { return fmt.Sprintf("%016x", n) }
