package oracle

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/schemas/identity"
)

// index finds existing records.
type index struct {
	profilesByName, profilesByEmail map[string][]*Profile
	accountsByName, accountsByEmail map[string][]*Account
	companiesBySlug                 map[string][]*Company
	companiesByNetworkID            map[string][]*Company
	// declaring has, for each account, the records of the other webset that declare it.
	profilesDeclaring map[string][]*Profile // by codehost username key
	accountsDeclaring map[string][]*Account // by network username key
	linksByEnd        map[end][]*link
	reposOf           map[int64][]*item
	commitsOf         map[int64][]*item
}

// Seal ends the additions and builds the indexes. It returns an error if two different records of one identity have the
// same newest version.
func (s *Store) Seal() error {
	var errs []error
	tie := func(v version, what string) bool {
		if v.tied {
			errs = append(
				errs,
				fmt.Errorf("%s has two records of version %s: the oracle cannot tell which is current", what, v.at),
			)
		}
		return v.deleted
	}
	ix := index{
		profilesByName: map[string][]*Profile{}, profilesByEmail: map[string][]*Profile{},
		accountsByName: map[string][]*Account{}, accountsByEmail: map[string][]*Account{},
		companiesBySlug: map[string][]*Company{}, companiesByNetworkID: map[string][]*Company{},
		profilesDeclaring: map[string][]*Profile{}, accountsDeclaring: map[string][]*Account{},
		linksByEnd: map[end][]*link{}, reposOf: map[int64][]*item{}, commitsOf: map[int64][]*item{},
	}
	for _, p := range s.profiles {
		if tie(p.version, "network-person "+p.ID) {
			continue
		}
		addTo(ix.profilesByName, identity.NormalizeUsername(p.Username), p)
		for _, k := range emailKeys(p.emails) {
			addTo(ix.profilesByEmail, k, p)
		}
		for _, k := range p.declares[identity.Codehost] {
			addTo(ix.profilesDeclaring, k, p)
		}
	}
	visible("repository", s.repos, s.reposComplete, ix.reposOf, tie)
	visible("commit", s.commits, s.commitsComplete, ix.commitsOf, tie)
	s.reposOf, s.commitsOf = ix.reposOf, ix.commitsOf
	for _, a := range s.accounts {
		if tie(a.version, fmt.Sprint("codehost-person ", a.ID)) || a.organization {
			continue
		}
		addTo(ix.accountsByName, identity.NormalizeUsername(a.Username), a)
		for _, k := range emailKeys(append(slices.Clone(a.emails), s.activityOf(a.ID, a.Username).addresses...)) {
			addTo(ix.accountsByEmail, k, a)
		}
		for _, k := range a.declares[identity.Network] {
			addTo(ix.accountsDeclaring, k, a)
		}
	}
	for _, c := range s.companies {
		if tie(c.version, "network-company "+c.ID) {
			continue
		}
		addTo(ix.companiesBySlug, identity.NormalizeUsername(c.Slug), c)
		addTo(ix.companiesByNetworkID, c.NetworkID, c)
	}
	for _, l := range s.links {
		if tie(l.version, "account-link") || l.a.platform == l.b.platform {
			continue
		}
		for _, e := range []end{l.a, l.b} {
			if e.key != "" {
				ix.linksByEnd[e] = append(ix.linksByEnd[e], l)
			}
		}
	}
	for _, repos := range ix.reposOf {
		slices.SortFunc(
			repos,
			func(a, b *item) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(number64(a.id), number64(b.id))) },
		)
	}
	for _, commits := range ix.commitsOf {
		slices.SortFunc(commits, func(a, b *item) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.id, b.id)) })
	}
	s.index = ix
	return errors.Join(errs...)
}

func addTo[T any](index map[string][]T, key string, v T) {
	if key != "" {
		index[key] = append(index[key], v)
	}
}

func number64(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func emailKeys(emails []string) []string {
	var keys []string
	for _, e := range emails {
		if k, err := identity.NormalizeEmail(e); err == nil && !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	return keys
}

// visible returns the items that are deleted neither individually nor by a complete list (MAPPING.md, "Repositories and
// commits of an account").
func visible(
	name string,
	items map[itemKey]*item,
	lists map[int64]*complete,
	of map[int64][]*item,
	tie func(version, string) bool,
) {
	for key, it := range items {
		if tie(it.version, fmt.Sprintf("%s %s of %d", name, key.id, key.owner)) {
			continue
		}
		if l := lists[key.owner]; l != nil && !l.ids[key.id] && !it.at.After(l.at) {
			continue
		}
		of[key.owner] = append(of[key.owner], it)
	}
}

// newest returns the record with the newest version; of equal versions, the one with the smallest identity.
func newest[T any](records []*T, at func(*T) time.Time, smaller func(a, b *T) int) *T {
	if len(records) == 0 {
		return nil
	}
	return slices.MinFunc(records, func(a, b *T) int { return cmp.Or(at(b).Compare(at(a)), smaller(a, b)) })
}

func newestProfile(list []*Profile) *Profile {
	return newest(
		list, func(p *Profile) time.Time { return p.at }, func(a, b *Profile) int { return cmp.Compare(a.ID, b.ID) },
	)
}

func newestAccount(list []*Account) *Account {
	return newest(
		list, func(a *Account) time.Time { return a.at }, func(a, b *Account) int { return cmp.Compare(a.ID, b.ID) },
	)
}

func newestCompany(list []*Company) *Company {
	return newest(
		list, func(c *Company) time.Time { return c.at }, func(a, b *Company) int { return cmp.Compare(a.ID, b.ID) },
	)
}

// Profile returns the current network-person with a username, or nil.
func (s *Store) Profile(username string) *Profile {
	return newestProfile(s.profilesByName[identity.NormalizeUsername(username)])
}

// Account returns the current codehost-person with a username, or nil.
func (s *Store) Account(username string) *Account {
	return newestAccount(s.accountsByName[identity.NormalizeUsername(username)])
}

// AccountOrID is [Store.Account] for the codehost webset, where digits are first tried as a user ID.
func (s *Store) AccountOrID(identifier string) *Account {
	if id, err := strconv.ParseInt(identifier, 10, 64); err == nil && strings.Trim(identifier, "0123456789") == "" {
		if a := s.accounts[id]; a != nil && !a.deleted && !a.organization {
			return a
		}
	}
	return s.Account(identifier)
}

// CompanyBySlug returns the current company with a slug.
func (s *Store) CompanyBySlug(slug string) *Company {
	return newestCompany(s.companiesBySlug[identity.NormalizeUsername(slug)])
}

// CompanyByNetworkID returns the company with a network ID.
func (s *Store) CompanyByNetworkID(id string) *Company {
	return newestCompany(s.companiesByNetworkID[id])
}

// CompanyByID returns the company with an ID; nil if there is none or it is deleted.
func (s *Store) CompanyByID(id string) *Company {
	if c := s.companies[id]; c != nil && !c.deleted {
		return c
	}
	return nil
}

// candidate is a link from a record to one of the other webset.
type candidate[T any] struct {
	confidence float64
	at         time.Time
	target     *T
}

// ranked returns the targets of candidates, best first.
func ranked[T any](candidates []candidate[T], smaller func(a, b *T) int) []*T {
	candidates = slices.DeleteFunc(candidates, func(c candidate[T]) bool { return c.target == nil })
	slices.SortFunc(candidates, func(a, b candidate[T]) int {
		return cmp.Or(cmp.Compare(b.confidence, a.confidence), b.at.Compare(a.at), smaller(a.target, b.target))
	})
	var out []*T
	for _, c := range candidates {
		out = append(out, c.target)
	}
	return out
}

// foremost returns the first element of a list, or nil.
func foremost[T any](list []*T) *T {
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

// LinkedProfile follows an account's link to the network webset (MAPPING.md, "Followed link"). It returns nil if there
// is none.
func (s *Store) LinkedProfile(a *Account) *Profile { return foremost(s.linkedProfiles(a)) }

func (s *Store) linkedProfiles(a *Account) []*Profile {
	var declared []candidate[Profile]
	for _, k := range a.declares[identity.Network] {
		declared = append(declared, candidate[Profile]{1, a.at, newestProfile(s.profilesByName[k])})
	}
	return s.profileNaming(identity.NormalizeUsername(a.Username), declared)
}

// profileNaming returns the network-persons that declare a codehost username, or that an account-link links to it, best
// first.
func (s *Store) profileNaming(key string, all []candidate[Profile]) []*Profile {
	for _, p := range s.profilesDeclaring[key] {
		all = append(all, candidate[Profile]{1, p.at, p})
	}
	for _, l := range s.linksByEnd[end{identity.Codehost, key}] {
		if other := l.other(identity.Codehost); other.platform == identity.Network {
			all = append(all, candidate[Profile]{l.confidence, l.at, newestProfile(s.profilesByName[other.key])})
		}
	}
	return ranked(all, func(a, b *Profile) int { return cmp.Compare(a.ID, b.ID) })
}

// LinkedAccount follows a profile's link to the codehost webset. It returns nil if there is none.
func (s *Store) LinkedAccount(p *Profile) *Account { return foremost(s.linkedAccounts(p)) }

func (s *Store) linkedAccounts(p *Profile) []*Account {
	var declared []candidate[Account]
	for _, k := range p.declares[identity.Codehost] {
		declared = append(declared, candidate[Account]{1, p.at, newestAccount(s.accountsByName[k])})
	}
	return s.accountNaming(identity.NormalizeUsername(p.Username), declared)
}

// accountNaming is profileNaming for the other direction.
func (s *Store) accountNaming(key string, all []candidate[Account]) []*Account {
	for _, a := range s.accountsDeclaring[key] {
		all = append(all, candidate[Account]{1, a.at, a})
	}
	for _, l := range s.linksByEnd[end{identity.Network, key}] {
		if other := l.other(identity.Network); other.platform == identity.Codehost {
			all = append(all, candidate[Account]{l.confidence, l.at, newestAccount(s.accountsByName[other.key])})
		}
	}
	return ranked(all, func(a, b *Account) int { return cmp.Compare(a.ID, b.ID) })
}

func (l *link) other(platform string) end {
	if l.a.platform == platform {
		return l.b
	}
	return l.a
}

// PersonRequest is a request body of person enrichment.
type PersonRequest struct {
	Codehost        string   `json:"codehost,omitempty"`
	NetworkUsername string   `json:"network_username,omitempty"`
	Email           string   `json:"email,omitempty"`
	Websets         []string `json:"websets,omitempty"`
}

// Wants reports whether a webset is requested.
func (r PersonRequest) Wants(webset string) bool {
	if len(r.Websets) == 0 {
		return webset == identity.Codehost
	}
	return slices.Contains(r.Websets, webset)
}

// Enrich returns the records of both websets that answer a request; nil if a webset is not requested or has none
// (rulings.md, Person enrichment).
func (s *Store) Enrich(r PersonRequest) (*Account, *Profile) {
	accounts, accountSteps := s.accountsFor(r)
	profiles, profileSteps := s.profilesFor(r)
	switch wantsAccount, wantsProfile := r.Wants(identity.Codehost), r.Wants(identity.Network); {
	case !wantsAccount && !wantsProfile:
		return nil, nil
	case !wantsProfile:
		return foremost(accounts), nil
	case !wantsAccount:
		return nil, foremost(profiles)
	case len(accounts) == 0 || len(profiles) == 0:
		return foremost(accounts), foremost(profiles)
	case accountSteps[0] <= profileSteps[0]:
		for _, p := range profiles {
			if s.onePerson(accounts[0], p) {
				return accounts[0], p
			}
		}
		return accounts[0], nil
	}
	for _, a := range accounts {
		if s.onePerson(a, profiles[0]) {
			return a, profiles[0]
		}
	}
	return nil, profiles[0]
}

// accountsFor returns the accounts that answer a request, best first, each with the number of the step in the ruling
// that finds it.
func (s *Store) accountsFor(r PersonRequest) (found []*Account, steps []int) {
	add := func(step int, list ...*Account) {
		for _, a := range list {
			if a != nil {
				found, steps = append(found, a), append(steps, step)
			}
		}
	}
	if r.Codehost != "" {
		add(1, s.Account(r.Codehost))
	}
	if r.NetworkUsername != "" {
		if p := s.Profile(r.NetworkUsername); p != nil {
			add(2, s.linkedAccounts(p)...)
		} else {
			add(2, s.accountNaming(identity.NormalizeUsername(r.NetworkUsername), nil)...)
		}
	}
	key := emailKey(r.Email)
	add(3, newestAccounts(s.accountsByEmail[key])...)
	if p := newestProfile(s.profilesByEmail[key]); p != nil {
		add(4, s.linkedAccounts(p)...)
	}
	return found, steps
}

// profilesFor is accountsFor for the network webset.
func (s *Store) profilesFor(r PersonRequest) (found []*Profile, steps []int) {
	add := func(step int, list ...*Profile) {
		for _, p := range list {
			if p != nil {
				found, steps = append(found, p), append(steps, step)
			}
		}
	}
	if r.NetworkUsername != "" {
		add(1, s.Profile(r.NetworkUsername))
	}
	if r.Codehost != "" {
		if a := s.Account(r.Codehost); a != nil {
			add(2, s.linkedProfiles(a)...)
		} else {
			add(2, s.profileNaming(identity.NormalizeUsername(r.Codehost), nil)...)
		}
	}
	key := emailKey(r.Email)
	add(3, newestProfiles(s.profilesByEmail[key])...)
	if a := newestAccount(s.accountsByEmail[key]); a != nil {
		add(4, s.linkedProfiles(a)...)
	}
	return found, steps
}

// onePerson reports whether no declared link of either record leads to another account.
func (s *Store) onePerson(a *Account, p *Profile) bool {
	account, profile := end{
		identity.Codehost,
		identity.NormalizeUsername(a.Username),
	}, end{
		identity.Network,
		identity.NormalizeUsername(p.Username),
	}
	ofAccount, ofProfile := a.declares[identity.Network], p.declares[identity.Codehost]
	return !elsewhere(ofAccount, profile.key, slices.Contains(ofProfile, account.key), len(s.profilesDeclaring[account.key]) > 0, s.linkedTo(account)) &&
		!elsewhere(ofProfile, account.key, slices.Contains(ofAccount, profile.key), len(s.accountsDeclaring[profile.key]) > 0, s.linkedTo(profile))
}

// elsewhere reports whether the declared links of a record lead only to accounts other than other: the links that it
// declares or, without any, those that declare it, and account-links.
func elsewhere(own []string, other string, byOther, bySome bool, links []string) bool {
	switch {
	case len(own) > 0:
		return !slices.Contains(own, other)
	case byOther || slices.Contains(links, other):
		return false
	}
	return bySome || len(links) > 0
}

// linkedTo returns the accounts of the other webset that account-links link to an account.
func (s *Store) linkedTo(e end) []string {
	var out []string
	for _, l := range s.linksByEnd[e] {
		if other := l.other(e.platform); other.platform == identity.Codehost || other.platform == identity.Network {
			out = append(out, other.key)
		}
	}
	return out
}

// givenEmail returns the field "email" of a person if it is an address.
func givenEmail(v any) string {
	s, _ := v.(string)
	if emailKey(s) == "" {
		return ""
	}
	return s
}

// emailKey returns the comparison form of an address, or "" if it is invalid.
func emailKey(address string) string {
	key, err := identity.NormalizeEmail(address)
	if err != nil {
		return ""
	}
	return key
}

func newestAccounts(list []*Account) []*Account {
	return slices.SortedFunc(
		slices.Values(list), func(a, b *Account) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.ID, b.ID)) },
	)
}

func newestProfiles(list []*Profile) []*Profile {
	return slices.SortedFunc(
		slices.Values(list), func(a, b *Profile) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.ID, b.ID)) },
	)
}

// AccountByEmail returns the most recently updated account with an address.
func (s *Store) AccountByEmail(address string) *Account {
	return newestAccount(s.accountsByEmail[emailKey(address)])
}

// ProfileByEmail returns the most recently updated profile with an address.
func (s *Store) ProfileByEmail(address string) *Profile {
	return newestProfile(s.profilesByEmail[emailKey(address)])
}

// IsOrganization reports whether an account belongs to an organization. No person endpoint finds these.
func (s *Store) IsOrganization(userID string) bool {
	id, err := strconv.ParseInt(userID, 10, 64)
	return err == nil && s.accounts[id] != nil && s.accounts[id].organization
}

// Addresses returns the distinct email addresses in the records, in no order.
func (s *Store) Addresses() []string { return slices.Collect(maps.Keys(s.addresses)) }

// Newest is the newest record of one identity.
type Newest struct {
	At      time.Time
	Deleted bool
}

// Newest returns the newest record of every identity of a kind, including deleted ones. Identities with two parts are
// joined with a slash; those of account links are both ends in order, then the source, separated by spaces.
func (s *Store) Newest(kind string) map[string]Newest {
	out := map[string]Newest{}
	add := func(id string, v version) { out[id] = Newest{v.at, v.deleted} }
	switch kind {
	case NetworkPerson:
		for id, p := range s.profiles {
			add(id, p.version)
		}
	case CodehostPerson:
		for id, a := range s.accounts {
			add(strconv.FormatInt(id, 10), a.version)
		}
	case NetworkCompany:
		for id, c := range s.companies {
			add(id, c.version)
		}
	case MicroblogPerson:
		for id, v := range s.microblog {
			add(id, *v)
		}
	case CodehostRepo:
		for key, it := range s.repos {
			add(fmt.Sprintf("%d/%s", key.owner, key.id), it.version)
		}
	case CodehostCommit:
		for key, it := range s.commits {
			add(fmt.Sprintf("%d/%s", key.owner, key.id), it.version)
		}
	case AccountLink:
		for id, l := range s.links {
			add(id, l.version)
		}
	}
	return out
}
