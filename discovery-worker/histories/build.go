package histories

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/schemas/identity"
	"muster/schemas/record"
)

// Options configure [Build].
type Options struct {
	Seed uint64
	// Missing is the share of the accounts whose profile is left out.
	Missing float64
	// Population is the number of profiles for each account with a name, at least 1. Further
	// profiles have resampled names.
	Population float64
	// Repeated is the share of the further profiles that have the whole name of an account's owner.
	Repeated float64
	// Calls is the maximum number of questions, drawn evenly from the classes.
	Calls int
}

// Record is a record of either side.
type Record struct {
	Kind record.Kind
	JSON jsontext.Value
}

// Class is a class of questions.
type Class string

// Classes of questions. Namesakes are other profiles with a blocking key of the person's name.
const (
	Linked            Class = "declared link"
	Rare              Class = "rare name, no link"
	UnrelatedHandle   Class = "handle unrelated to the name"
	OneNamesake       Class = "one namesake"
	MoreNamesakes     Class = "two or more namesakes"
	NoProfile         Class = "no profile"
	NoProfileNamesake Class = "no profile, but namesakes"
)

// Classes returns all classes in the order of reports.
func Classes() []Class {
	return []Class{Linked, Rare, UnrelatedHandle, OneNamesake, MoreNamesakes, NoProfile, NoProfileNamesake}
}

// Question is an account with the profile of its owner.
type Question struct {
	Username string
	// Profile is the slug of the profile, or "" if the person has none. ProfileID is its identity, ""
	// if it is not in the store.
	Profile, ProfileID string
	Class              Class
}

// Data is the evaluation that was built.
type Data struct {
	Records   []Record
	Questions []Question
	// Descriptions are of the authors, and of invented people who are not in the store, at most as many as Calls.
	Descriptions []Description
	// Sizes are the numbers of accounts by class, of which the questions are drawn.
	Sizes map[Class]int
	// Repositories, Accounts and Profiles count what was read and built. Ambiguous people have
	// several accounts and are left out.
	Repositories, Accounts, Profiles, Ambiguous int
}

// Shares of what is drawn. See deploy/docs/discovery-evaluation.md.
const (
	shareNameless = 1.0 / 3
	shareLinked   = 1.0 / 5
	shareVariant  = 1.0 / 2 // of the people with several names, who use another one than the proper one
)

// DefaultRepeated is the usual value of [Options.Repeated].
const DefaultRepeated = 1.0 / 1000

// updated is the version of all records.
const updated = "2026-01-01T00:00:00Z"

type builder struct {
	o     Options
	out   *Data
	slugs map[string]bool
}

// pairing is an account with its profile.
type pairing struct {
	person   *person
	name     string // of the account, or ""
	profile  *profile
	missing  bool // the profile is left out
	linked   bool
	declares bool // the account names the profile
}

// People are the authors of repositories.
type People struct {
	people                  []*person
	repositories, ambiguous int
}

// Read reads the authors of the repositories in a directory. noReplyHosts are code hosts with no-reply addresses, in
// addition to the configured ones. It needs the git program.
func Read(ctx context.Context, dir string, noReplyHosts ...string) (*People, error) {
	dirs, err := findRepositories(dir)
	if err != nil {
		return nil, err
	}
	c, n := newClusters(noReplyHosts), 0
	for _, dir := range dirs {
		err := readHistory(ctx, dir, func(k commit) error {
			if n++; n > maxCommits {
				return fmt.Errorf("more than %d commits: use fewer repositories", maxCommits)
			}
			c.add(k)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	p := &People{repositories: len(dirs)}
	p.people, p.ambiguous = c.people()
	return p, nil
}

// Build builds records and questions.
func (p *People) Build(o Options) (*Data, error) {
	if !isShare(o.Missing) || !isShare(o.Repeated) || !(o.Population >= 1 && o.Population <= 1000) || o.Calls < 1 {
		return nil, errors.New("build: the shares of missing profiles and of repeated names are from 0 to 1, the " +
			"population from 1 to 1000, and at least one call is made")
	}
	b := &builder{o: o, out: &Data{Repositories: p.repositories, Ambiguous: p.ambiguous, Sizes: make(map[Class]int)},
		slugs: make(map[string]bool)}
	if err := b.build(p.people); err != nil {
		return nil, err
	}
	if len(b.out.Questions) == 0 {
		return nil, errors.New("build: no author has a no-reply address with an account ID, and a full name")
	}
	return b.out, nil
}

func isShare(x float64) bool { return x >= 0 && x <= 1 }

func (b *builder) build(people []*person) error {
	r := rand.New(rand.NewPCG(b.o.Seed, 1)) //nolint:gosec // a repeatable draw
	companies := employers(people)
	pairs := make([]*pairing, 0, len(people))
	var named []*pairing
	for _, p := range people {
		k := b.pair(r, p, companies[p])
		pairs = append(pairs, k)
		if k.profile != nil {
			named = append(named, k)
		}
	}
	b.out.Accounts = len(pairs)
	profiles := b.furtherProfiles(r, named, companies)
	for _, k := range named {
		if !k.missing {
			profiles = append(profiles, *k.profile)
		}
	}
	b.out.Profiles = len(profiles)
	b.ask(r, named, profiles)
	b.describe(named)
	for _, k := range pairs {
		if err := b.addAccount(k); err != nil {
			return err
		}
	}
	slices.SortFunc(profiles, func(x, y profile) int { return strings.Compare(x.slug, y.slug) })
	for _, p := range profiles {
		if err := b.addProfile(p); err != nil {
			return err
		}
	}
	return nil
}

// pair draws the account's name, the profile and the link of a person.
func (b *builder) pair(r *rand.Rand, p *person, employer string) *pairing {
	k := &pairing{person: p}
	if used := mostUsed(p.accountNames); r.Float64() >= shareNameless {
		k.name = used[0]
	}
	names := p.fullNames()
	if len(names) == 0 {
		return k
	}
	name := names[0]
	if len(names) > 1 && r.Float64() < shareVariant {
		name = names[1+r.IntN(len(names)-1)]
	}
	made := b.newProfile(r, name, employer, p.username)
	k.profile = &made
	k.missing = r.Float64() < b.o.Missing
	if k.linked = r.Float64() < shareLinked; k.linked {
		way := r.IntN(3) // the account names the profile, the profile the account, or both
		k.declares = way != 1 || k.missing
		if way != 0 {
			made.codehost = p.username
		}
	}
	return k
}

// furtherProfiles returns the profiles of a larger population. Their names are resampled: the given
// name of one person and the rest of the name of another one, or the whole name of one.
func (b *builder) furtherProfiles(r *rand.Rand, named []*pairing, companies map[*person]string) []profile {
	n := int((b.o.Population - 1) * float64(len(named)))
	out := make([]profile, 0, n+len(named))
	for len(out) < n {
		one, other := named[r.IntN(len(named))], named[r.IntN(len(named))]
		name := one.profile.name
		if r.Float64() >= b.o.Repeated {
			given, _, ok := strings.Cut(name, " ")
			_, family, found := strings.Cut(other.profile.name, " ")
			if !ok || !found {
				continue // a name without spaces
			}
			name = given + " " + family
		}
		out = append(out, b.newProfile(r, name, companies[named[r.IntN(len(named))].person], ""))
	}
	return out
}

// ask classifies the people and draws the questions.
func (b *builder) ask(r *rand.Rand, named []*pairing, profiles []profile) {
	users := make(map[string]map[string]bool) // slugs by key
	for _, p := range profiles {
		for _, key := range exactKeys(p.name) {
			if users[key] == nil {
				users[key] = make(map[string]bool)
			}
			users[key][p.slug] = true
		}
	}
	byClass := make(map[Class][]Question)
	for _, k := range named {
		others := make(map[string]bool)
		for _, name := range append(k.person.fullNames(), k.profile.name) {
			for _, key := range exactKeys(name) {
				for slug := range users[key] {
					others[slug] = true
				}
			}
		}
		delete(others, k.profile.slug)
		q := Question{Username: k.person.username, Class: classOf(k, len(others))}
		if !k.missing || k.linked {
			q.Profile = k.profile.slug
		}
		if !k.missing {
			q.ProfileID = k.profile.id
		}
		byClass[q.Class] = append(byClass[q.Class], q)
	}
	left := b.o.Calls
	for i, class := range Classes() {
		list := byClass[class]
		b.out.Sizes[class] = len(list)
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		n := min(len(list), left/(len(Classes())-i))
		left -= n
		b.out.Questions = append(b.out.Questions, list[:n]...)
	}
	r.Shuffle(len(b.out.Questions), func(i, j int) {
		b.out.Questions[i], b.out.Questions[j] = b.out.Questions[j], b.out.Questions[i]
	})
}

func classOf(k *pairing, namesakes int) Class {
	switch {
	case k.linked:
		return Linked
	case k.missing && namesakes > 0:
		return NoProfileNamesake
	case k.missing:
		return NoProfile
	case namesakes > 1:
		return MoreNamesakes
	case namesakes == 1:
		return OneNamesake
	case !resembles(k.person.username, k.profile.name):
		return UnrelatedHandle
	}
	return Rare
}

// exactKeys returns the blocking keys of a name without those of its sound.
func exactKeys(name string) []string {
	return slices.DeleteFunc(identity.NameBlockingKeys(name), func(k string) bool { return k[0] == '~' })
}

// resembles reports whether a username contains a part of a name, or an initial with the other
// part's beginning.
func resembles(username, name string) bool {
	stem := identity.UsernameBlockingKey(username)
	for _, t := range identity.NameTokens(name) {
		if len(t) >= 3 && (strings.Contains(stem, t) || strings.Contains(stem, t[:min(4, len(t))])) {
			return true
		}
	}
	return false
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func (b *builder) add(kind record.Kind, object map[string]any) error {
	text, err := json.Marshal(object, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("build: encode a record: %w", err)
	}
	b.out.Records = append(b.out.Records, Record{kind, text})
	return nil
}

func (b *builder) addAccount(k *pairing) error {
	id := k.person.id()
	account := map[string]any{"user_id": id, "codehost_username": k.person.username, "type": "User",
		"last_updated": updated}
	if k.name != "" {
		account["full_name"] = k.name
	}
	if k.declares {
		account["network_username"] = k.profile.slug
	}
	if err := b.add(record.KindCodehostPerson, account); err != nil {
		return err
	}
	for _, c := range k.person.commits {
		repo := map[string]any{"full_name": c.repo.name}
		if len(c.repo.languages) > 0 {
			repo["language"] = c.repo.languages[0]
		}
		if err := b.add(record.KindCodehostCommit, map[string]any{"user_id": id, "sha": c.sha, "author_name": c.name,
			"author_email": c.address, "author_login": k.person.username, "author_date": c.at.Format(time.RFC3339),
			"repo": repo}); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) addProfile(p profile) error {
	object := map[string]any{"profile_id": p.id, "username": p.slug, "full_name": p.name, "last_updated": updated,
		"location": map[string]any{"city": p.at.city, "country": p.at.country}}
	if p.headline != "" {
		object["headline"] = p.headline
	}
	if p.employer != "" {
		job := map[string]any{"company": map[string]any{"name": p.employer}, "current": true}
		if p.headline != "" {
			job["title"] = p.headline
		}
		object["experience"] = []any{job}
	}
	if p.codehost != "" {
		object["codehost_username"] = p.codehost
	}
	return b.add(record.KindNetworkPerson, object)
}
