package e2e_test

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"muster/deploy/e2e/internal/oracle"
	"muster/schemas/identity"
)

// Sizes of a property world. There are fewer usernames than people, so that usernames move between accounts.
const (
	propertyPeople    = 20
	propertyUsernames = 14
	propertyLinks     = 16
	firstAccount      = 100
	// propertySlots is the number of distinct times of versions: few, so that records of different people tie.
	propertySlots = 240
)

// Kinds of markers. A text of a record contains the marker "m:<kind>:<identity>:<version>:".
const (
	markedAccount = "cp"
	markedProfile = "np"
	markedRepo    = "cr"
	markedCommit  = "cc"
)

// mark identifies the record and the version that a text belongs to.
type mark struct {
	kind, id string
	version  int
}

func (m mark) text(what string) string {
	return fmt.Sprintf("m:%s:%s:%d:%s", m.kind, m.id, m.version, what)
}

var markPattern = regexp.MustCompile(`m:(cp|np|cr|cc):([0-9a-z_/]+):([0-9]+):`)

// marksIn returns the markers of a text.
func marksIn(text string) []mark {
	var out []mark
	for _, found := range markPattern.FindAllStringSubmatch(text, -1) {
		version, err := strconv.Atoi(found[3])
		if err != nil {
			panic(err) // the pattern matches digits only
		}
		out = append(out, mark{found[1], found[2], version})
	}
	return out
}

// owner returns the person of a marker: "cp:<user_id>" or "np:<profile_id>".
func (m mark) owner() string {
	if m.kind == markedProfile {
		return "np:" + m.id
	}
	id, _, _ := strings.Cut(m.id, "/")
	return "cp:" + id
}

// propertyEvent is one version of a record.
type propertyEvent struct {
	kind string
	raw  []byte
	// direct is set for records that a producer writes to Kafka. Ingest remembers what it published, so a direct
	// producer must not write the same identities.
	direct bool
	owner  string   // of a person's records: see mark.owner
	names  []string // of an account link: "<platform>/<username key>"
	author string   // of a commit: the author's address
}

// erasure is an erasure request, and the data that must not be shown once it is effective.
type erasure struct {
	identifiers []string // TYPE=VALUE
	owners      []string
	names       []string
	address     string
	withdrawn   bool // the request is withdrawn, and the person's records are brought in again
}

// propertyWorld is a random history of people on both platforms.
type propertyWorld struct {
	rng      *rand.Rand
	events   []propertyEvent
	erasures []erasure

	usernames map[string][]string // by platform, without those of erased people
	addresses []string
	// The values that any version of the records has stated.
	bore      map[string]map[string]bool // username keys, by owner
	declared  map[string]map[string]bool // username keys on the other platform, by owner
	linked    map[[2]string]bool         // pairs of a network and a code-host username key
	versionAt map[mark]map[string]bool   // values of last_updated (updated_at, author_date) of a content
}

// newPropertyWorld returns a random world.
func newPropertyWorld(seed uint64) *propertyWorld {
	w := &propertyWorld{
		rng: rand.New(rand.NewPCG(seed, 6)), usernames: map[string][]string{},
		bore: map[string]map[string]bool{}, declared: map[string]map[string]bool{}, linked: map[[2]string]bool{},
		versionAt: map[mark]map[string]bool{},
	}
	for i := range propertyUsernames {
		w.usernames[identity.Codehost] = append(w.usernames[identity.Codehost], fmt.Sprintf("dev-%d", i))
		w.usernames[identity.Network] = append(w.usernames[identity.Network], fmt.Sprintf("pro-%d", i))
	}
	w.erasures = []erasure{
		{
			identifiers: []string{
				"user_id=100", "codehost_username=gone-dev-0", "profile_id=p_0", "network_username=gone-pro-0",
			},
			owners: []string{"cp:100", "np:p_0"}, names: []string{"codehost/gone-dev-0", "network/gone-pro-0"},
		},
		{
			identifiers: []string{"user_id=101", "codehost_username=gone-dev-1", "email=dev101@p.example"},
			owners:      []string{"cp:101"}, names: []string{"codehost/gone-dev-1"}, address: "dev101@p.example",
		},
		{
			identifiers: []string{"profile_id=p_2", "network_username=gone-pro-2"},
			owners:      []string{"np:p_2"}, names: []string{"network/gone-pro-2"},
		},
		{ // The ID is derived.
			identifiers: []string{"codehost_username=back-dev-3"},
			owners:      []string{"cp:103"}, names: []string{"codehost/back-dev-3"}, withdrawn: true,
		},
	}
	var histories [][]propertyEvent
	for i := range propertyPeople {
		histories = append(histories, w.account(i)...)
		histories = append(histories, w.profile(i))
	}
	for i := range propertyLinks {
		histories = append(histories, w.link(i))
	}
	w.events = w.interleave(histories)
	return w
}

// interleave shuffles the versions of all histories. Half of the histories keep their order: ingest does not publish a
// late older version, so readers would otherwise see few versions.
func (w *propertyWorld) interleave(histories [][]propertyEvent) []propertyEvent {
	var turns []int
	for i, h := range histories {
		if w.one(2) {
			w.rng.Shuffle(len(h), func(a, b int) { h[a], h[b] = h[b], h[a] })
		}
		for range h {
			turns = append(turns, i)
		}
	}
	w.rng.Shuffle(len(turns), func(a, b int) { turns[a], turns[b] = turns[b], turns[a] })
	var out []propertyEvent
	for _, i := range turns {
		e := histories[i][0]
		histories[i] = histories[i][1:]
		out = append(out, e)
		if w.one(12) { // delivered twice
			out = append(out, e)
		}
	}
	return out
}

func (w *propertyWorld) one(in int) bool { return w.rng.IntN(in) == 0 }

func (w *propertyWorld) pick(from []string) string { return from[w.rng.IntN(len(from))] }

// instants returns n different random times, in order.
func (w *propertyWorld) instants(n int) []string {
	slots := w.rng.Perm(propertySlots)[:n]
	slices.Sort(slots)
	var out []string
	for _, s := range slots {
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(s) * 6 * time.Hour)
		out = append(out, at.Format(time.RFC3339))
	}
	return out
}

// username returns a random username on a platform, sometimes that of an erased person.
func (w *propertyWorld) username(platform string) string {
	if w.one(10) {
		return w.pick(map[string][]string{
			identity.Codehost: {"gone-dev-0", "gone-dev-1", "back-dev-3"}, identity.Network: {"gone-pro-0", "gone-pro-2"},
		}[platform])
	}
	return w.pick(w.usernames[platform])
}

func note(sets map[string]map[string]bool, key, value string) {
	if sets[key] == nil {
		sets[key] = map[string]bool{}
	}
	sets[key][value] = true
}

// newEvent encodes a version of a record.
func newEvent(kind string, r record, e propertyEvent) propertyEvent {
	raw, err := json.Marshal(r, json.Deterministic(true))
	if err != nil {
		panic(err) // records have JSON values only
	}
	e.kind, e.raw = kind, raw
	return e
}

// revise calls do for each of n versions: new content, unchanged content, or a deletion. content builds the record with
// the given content number.
func (w *propertyWorld) revise(
	kind, dateMember string, e propertyEvent, m mark, ids record, n int, content func(m mark, at string) record,
) []propertyEvent {
	var out []propertyEvent
	var last record
	for k, at := range w.instants(n) {
		r := record{}
		switch draw := w.rng.IntN(20); {
		case k > 0 && draw < 3:
			r["deleted"] = true
			last = nil // a record that returns has new content
		case last != nil && draw < 7:
			for name, v := range last {
				r[name] = v
			}
		default:
			m.version = k
			last = content(m, at)
			for name, v := range last {
				r[name] = v
			}
		}
		for name, v := range ids {
			r[name] = v
		}
		r[dateMember] = at
		if r["deleted"] == nil {
			if w.versionAt[m] == nil {
				w.versionAt[m] = map[string]bool{}
			}
			w.versionAt[m][at] = true
		}
		out = append(out, newEvent(kind, r, e))
	}
	return out
}

// fixedUsername returns the username of an erased person, which never moves.
func (w *propertyWorld) fixedUsername(owner string) (string, bool) {
	for _, e := range w.erasures {
		if i := slices.Index(e.owners, owner); i >= 0 {
			_, name, _ := strings.Cut(e.names[i], "/")
			return name, true
		}
	}
	return "", false
}

// account adds random histories of an account, its repositories and its commits.
func (w *propertyWorld) account(i int) [][]propertyEvent {
	id := firstAccount + i
	m := mark{kind: markedAccount, id: strconv.Itoa(id)}
	e := propertyEvent{direct: w.one(3), owner: m.owner()}
	repos, repoVersions := w.repos(id, e)
	commits, commitVersions := w.commits(id, e)
	name, fixed := w.fixedUsername(e.owner)
	address := fmt.Sprintf("dev%d@p.example", id)
	w.addresses = append(w.addresses, address)
	person := w.revise(oracle.CodehostPerson, "last_updated", e, m, record{"user_id": id}, 3+w.rng.IntN(5),
		func(m mark, at string) record {
			if name == "" || !fixed && w.one(3) {
				name = w.pick(w.usernames[identity.Codehost])
			}
			note(w.bore, e.owner, name)
			r := record{
				"codehost_username": name, "bio": m.text("bio"), "emails": []string{address},
				"followers": w.rng.IntN(1000), "note": record{"deep": []string{m.text("note")}},
			}
			for _, text := range []string{"full_name", "company", "location", "blog", "avatar_url"} {
				if !w.one(3) {
					r[text] = m.text(text)
				}
			}
			if w.one(4) {
				r["names"] = []string{m.text("names")}
			}
			other := w.username(identity.Network)
			if fixed {
				other = map[bool]string{true: "gone-pro-0"}[id == firstAccount]
			}
			if other != "" && (fixed || w.one(2)) {
				note(w.declared, e.owner, other)
				if w.one(3) {
					r["social_accounts"] = []string{"https://www.network.example/in/" + other}
				} else {
					r["network_username"] = strings.ToUpper(other[:1]) + other[1:]
				}
			}
			if w.one(4) {
				r["repos"], r["repos_complete"] = w.snapshot(repoVersions, at), true
			}
			if w.one(5) {
				r["commits"], r["commits_complete"] = w.snapshot(commitVersions, at), true
			}
			return r
		})
	return append(append(repos, commits...), person)
}

// dated is a version of a repository or commit for an embedded list.
type dated struct {
	at     string
	record record
}

// snapshot returns random entries of a complete list: some of the repositories or commits that exist by then.
func (w *propertyWorld) snapshot(histories [][]dated, at string) []record {
	out := []record{}
	for _, h := range histories {
		known := slices.DeleteFunc(slices.Clone(h), func(d dated) bool { return d.at > at })
		if len(known) > 0 && !w.one(4) {
			out = append(out, known[len(known)-1].record)
		}
	}
	return out
}

// embeddable returns the versions of an item that a list may embed.
func embeddable(events []propertyEvent, dateMember string) []dated {
	var out []dated
	for _, e := range events {
		var r record
		if err := json.Unmarshal(e.raw, &r); err != nil {
			panic(err)
		}
		if r["deleted"] == nil {
			delete(r, "user_id")
			out = append(out, dated{r[dateMember].(string), r})
		}
	}
	return out
}

func (w *propertyWorld) repos(owner int, e propertyEvent) (histories [][]propertyEvent, versions [][]dated) {
	for k := range w.rng.IntN(5) {
		id := owner*10 + k
		m := mark{kind: markedRepo, id: fmt.Sprintf("%d/%d", owner, id)}
		events := w.revise(oracle.CodehostRepo, "updated_at", e, m, record{"user_id": owner, "id": id}, 1+w.rng.IntN(4),
			func(m mark, _ string) record {
				r := record{"name": m.text("name"), "description": m.text("description")}
				if !w.one(3) {
					r["language"] = w.pick([]string{"Go", "Rust", "Zig", "C"})
				}
				if w.one(2) {
					r["topics"] = []string{m.text("topic")}
				}
				return r
			})
		histories, versions = append(histories, events), append(versions, embeddable(events, "updated_at"))
	}
	return histories, versions
}

func (w *propertyWorld) commits(owner int, e propertyEvent) (histories [][]propertyEvent, versions [][]dated) {
	for k := range w.rng.IntN(6) {
		sha := hex.EncodeToString(fmt.Appendf(nil, "%010d%010d", owner, k))
		m := mark{kind: markedCommit, id: fmt.Sprintf("%d/%s", owner, sha)}
		// A commit by another author is shown with the account, but does not describe it.
		e, address, login := e, fmt.Sprintf("dev%d@p.example", owner), ""
		switch w.rng.IntN(4) {
		case 0:
			address = fmt.Sprintf("dev%d@p.example", firstAccount+w.rng.IntN(propertyPeople))
			login = w.username(identity.Codehost)
		case 1: // by another author without a known login
			address = fmt.Sprintf("dev%d@p.example", firstAccount+w.rng.IntN(propertyPeople))
		case 2:
			address = fmt.Sprintf("work%d@p.example", owner)
		}
		e.author = address
		events := w.revise(oracle.CodehostCommit, "author_date", e, m, record{"user_id": owner, "sha": sha}, 1+w.rng.IntN(3),
			func(m mark, _ string) record {
				r := record{"message": m.text("message"), "author_name": m.text("author"), "author_email": address}
				if login != "" {
					r["author_login"] = login
				}
				return r
			})
		histories = append(histories, events)
		// An embedded commit goes with its person; one with an erased author is separate.
		if !slices.ContainsFunc(w.erasures, func(er erasure) bool { return er.address == address }) {
			versions = append(versions, embeddable(events, "author_date"))
		}
	}
	return histories, versions
}

func (w *propertyWorld) profile(i int) []propertyEvent {
	id := fmt.Sprintf("p_%d", i)
	m := mark{kind: markedProfile, id: id}
	e := propertyEvent{direct: w.one(3), owner: m.owner()}
	name, fixed := w.fixedUsername(e.owner)
	address := fmt.Sprintf("pro%d@p.example", i)
	w.addresses = append(w.addresses, address)
	return w.revise(oracle.NetworkPerson, "last_updated", e, m, record{"profile_id": id}, 3+w.rng.IntN(5),
		func(m mark, _ string) record {
			if name == "" || !fixed && w.one(3) {
				name = w.pick(w.usernames[identity.Network])
			}
			note(w.bore, e.owner, name)
			r := record{
				"username": name, "headline": m.text("headline"), "emails": []string{address},
				"note": record{"deep": []string{m.text("note")}},
			}
			for _, text := range []string{"full_name", "summary", "photo"} {
				if !w.one(3) {
					r[text] = m.text(text)
				}
			}
			if w.one(2) {
				r["experience"] = []record{{"title": m.text("title"), "company": record{"name": m.text("company")}}}
			}
			if w.one(2) {
				r["skills"] = []record{{"skill": m.text("skill")}, {"skill": m.text("another")}}
			}
			other := w.username(identity.Codehost)
			if fixed {
				other = map[bool]string{true: "gone-dev-0"}[i == 0]
			}
			if other != "" && (fixed || w.one(2)) {
				note(w.declared, e.owner, other)
				if w.one(3) {
					r["social_accounts"] = []string{"https://codehost.example/" + other}
				} else {
					r["codehost_username"] = other
				}
			}
			return r
		})
}

// link adds the random history of a third party's statement that two accounts belong to one person.
func (w *propertyWorld) link(i int) []propertyEvent {
	network, codehost := w.username(identity.Network), w.username(identity.Codehost)
	w.linked[[2]string{network, codehost}] = true
	a := record{"platform": identity.Network, "username": network}
	b := record{"platform": identity.Codehost, "username": codehost}
	if w.one(2) {
		a, b = b, a
	}
	e := propertyEvent{direct: w.one(3), names: []string{"network/" + network, "codehost/" + codehost}}
	ids := record{"a": a, "b": b, "source": fmt.Sprint("source-", i)}
	return w.revise(oracle.AccountLink, "observed_at", e, mark{}, ids, 1+w.rng.IntN(5), func(mark, string) record {
		r := record{}
		if !w.one(3) {
			r["confidence"] = []float64{0.3, 0.6, 0.9, 0.95, 1}[w.rng.IntN(5)]
		}
		return r
	})
}

// mayBeOne reports whether any version of the records has linked an account and a profile.
func (w *propertyWorld) mayBeOne(account, profile string) bool {
	for name := range w.bore[profile] {
		if w.declared[account][name] {
			return true
		}
		for other := range w.bore[account] {
			if w.linked[[2]string{name, other}] {
				return true
			}
		}
	}
	for name := range w.bore[account] {
		if w.declared[profile][name] {
			return true
		}
	}
	return false
}

// erases reports whether an erasure removes an event.
func (er erasure) erases(e propertyEvent) bool {
	return slices.Contains(er.owners, e.owner) || er.address != "" && er.address == e.author ||
		slices.ContainsFunc(e.names, func(n string) bool { return slices.Contains(er.names, n) })
}

// remains reports whether an event remains after all erasures that are not withdrawn.
func (w *propertyWorld) remains(e propertyEvent) bool {
	return !slices.ContainsFunc(w.erasures, func(er erasure) bool { return !er.withdrawn && er.erases(e) })
}

// returning returns the events that withdrawn erasures removed.
func (w *propertyWorld) returning() []propertyEvent {
	var out []propertyEvent
	for _, e := range w.events {
		if slices.ContainsFunc(w.erasures, func(er erasure) bool { return er.withdrawn && er.erases(e) }) {
			out = append(out, e)
		}
	}
	return out
}
