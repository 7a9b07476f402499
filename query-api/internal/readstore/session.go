package readstore

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"muster/platform/batchload"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/resolution"
)

// maxDeclared is the maximum number of declared usernames of one record that are followed.
const maxDeclared = 100

// platform is one of the two person websets, with its lookup types.
type platform struct {
	name     string
	username readmodel.LookupType // by username
	email    readmodel.LookupType
	declares readmodel.LookupType // by a declared username of the other platform
	link     readmodel.LookupType // account-links that name the username
	hint     readmodel.LookupType // by a username of the other platform that names a username of this one
}

func networkPlatform() platform {
	return platform{
		name: identity.Network, username: readmodel.LookupNetworkUsername, email: readmodel.LookupNetworkEmail,
		declares: readmodel.LookupNetworkCodehostUsername, link: readmodel.LookupLinkNetwork,
		hint: readmodel.LookupHintNetwork,
	}
}

func codehostPlatform() platform {
	return platform{
		name: identity.Codehost, username: readmodel.LookupCodehostUsername, email: readmodel.LookupCodehostEmail,
		declares: readmodel.LookupCodehostNetworkUsername, link: readmodel.LookupLinkCodehost,
		hint: readmodel.LookupHintCodehost,
	}
}

func (p platform) other() platform {
	if p.name == identity.Network {
		return codehostPlatform()
	}
	return networkPlatform()
}

// person is an existing record of one of the two platforms. One of the two rows is set.
type person struct {
	network  *readmodel.NetworkPersonRow
	codehost *readmodel.AnswerRow
	noReply  string // no-reply address of the account, if it is in the query
}

func (p *person) platform() platform {
	if p.network != nil {
		return networkPlatform()
	}
	return codehostPlatform()
}

func (p *person) version() int64 {
	if p.network != nil {
		return p.network.Version
	}
	return p.codehost.Version
}

func (p *person) usernameKey() string {
	if p.network != nil {
		return p.network.UsernameKey
	}
	return p.codehost.UsernameKey
}

func (p *person) emailKeys() []string {
	if p.network != nil {
		return p.network.EmailKeys
	}
	keys := slices.Concat(p.codehost.EmailKeys, p.codehost.DerivedEmailKeys())
	if p.noReply != "" {
		keys = append(keys, p.noReply)
	}
	return keys
}

// declared returns the usernames of the other platform that the record declares.
func (p *person) declared() []string {
	if p.network != nil {
		return p.network.CodehostUsernameKeys
	}
	return p.codehost.NetworkUsernameKeys
}

// compareIdentity orders people of one platform: numbers by value, strings by bytes.
func (p *person) compareIdentity(q *person) int {
	if p.network != nil {
		return strings.Compare(p.network.ProfileID, q.network.ProfileID)
	}
	switch {
	case p.codehost.UserID < q.codehost.UserID:
		return -1
	case p.codehost.UserID > q.codehost.UserID:
		return 1
	}
	return 0
}

// newestFirst orders people by version, then identity (MAPPING.md, section 2).
func newestFirst(a, b *person) int {
	if a.version() != b.version() {
		if a.version() > b.version() {
			return -1
		}
		return 1
	}
	return a.compareIdentity(b)
}

// lookupKey is a key of the table lookups.
type lookupKey struct {
	kind  readmodel.LookupType
	value string
}

// session is the state of one query. It caches what it reads, so that the steps can be written in their logical order
// and prefetched in few rounds. It must be used by one goroutine at a time.
type session struct {
	store   *Store
	fetch   func(context.Context, *round) error // makes the reads of a round
	noReply noReply

	lookups    map[uint64][]readmodel.LookupRow // by key hash
	found      map[lookupKey][]readmodel.LookupRow
	named      map[target][]lookupKey              // lookups of the usernames that an account names, if it has hints
	hints      map[lookupKey][]readmodel.LookupRow // candidates of these usernames
	people     map[string]*person                  // by platform and identity; nil: does not exist
	discovered map[target][]resolution.Discovered  // by platform and username
	headcounts map[string]*readmodel.HeadcountRow  // by company ID
}

func (s *Store) session() *session {
	return &session{
		store: s, fetch: s.fetch,
		lookups: make(map[uint64][]readmodel.LookupRow), found: make(map[lookupKey][]readmodel.LookupRow),
		named: make(map[target][]lookupKey), hints: make(map[lookupKey][]readmodel.LookupRow),
		people: make(map[string]*person), discovered: make(map[target][]resolution.Discovered),
	}
}

// lookup returns the candidates of a key.
func (s *session) lookup(ctx context.Context, k lookupKey) ([]readmodel.LookupRow, error) {
	if err := s.ask(ctx, k); err != nil {
		return nil, err
	}
	return s.found[k], nil
}

// ask reads the candidates of all keys that are not cached, in one round.
func (s *session) ask(ctx context.Context, keys ...lookupKey) error {
	var r round
	apply := s.planLookups(&r, keys...)
	if err := s.fetch(ctx, &r); err != nil {
		return err
	}
	apply()
	return nil
}

// planLookups adds the keys that are not cached to a round. The caller calls apply after the round.
func (s *session) planLookups(r *round, keys ...lookupKey) (apply func()) {
	if slices.Contains(keys, s.noReply.key()) {
		keys = append(slices.Clip(keys), lookupKey{readmodel.LookupCodehostUsername, s.noReply.username})
	}
	unknown := make([]lookupKey, 0, len(keys))
	for _, k := range keys {
		if _, known := s.found[k]; known || k.value == "" {
			continue
		}
		unknown = append(unknown, k)
		h := readmodel.KeyHash(k.kind, k.value)
		if _, known := s.lookups[h]; !known && !slices.Contains(r.lookups.keys, h) {
			r.lookups.keys = append(r.lookups.keys, h)
		}
	}
	return func() {
		for i, h := range r.lookups.keys {
			s.lookups[h] = r.lookups.values[i]
		}
		for _, k := range unknown {
			// The rows are shared with other callers.
			rows := slices.Clone(s.lookups[readmodel.KeyHash(k.kind, k.value)])
			s.found[k] = slices.DeleteFunc(rows, func(r readmodel.LookupRow) bool { return !k.names(r) })
			s.useHints(k)
		}
		if k := s.noReply.key(); slices.Contains(unknown, k) {
			s.found[k] = append(slices.Clip(s.found[k]), s.noReply.rows(s.found)...)
		}
	}
}

// useHints caches the candidates of the usernames that a username of the other platform names, from its hints: they
// need no lookup of their own. On a cluster hints may lack candidates, since they may have been written from a replica
// that lagged. There they only say which records to read early.
func (s *session) useHints(k lookupKey) {
	for _, p := range []platform{codehostPlatform(), networkPlatform()} {
		other := p.other()
		if k.kind != p.username && k.kind != p.link && k.kind != other.declares {
			continue
		}
		rows := s.lookups[readmodel.KeyHash(k.kind, k.value)]
		by := target{p.name, k.value}
		if _, known := s.named[by]; known {
			return
		}
		s.named[by] = nil
		for _, name := range readmodel.Named(rows, p.username, p.link, k.value, other.name) {
			named := lookupKey{other.username, name}
			s.named[by] = append(s.named[by], named)
			if _, known := s.hints[named]; known {
				continue
			}
			s.hints[named] = nil
			for _, r := range rows {
				namer, _ := r.Namer()
				if r.Type == string(other.hint) && r.Value == name && namer == k.value {
					s.hints[named] = append(s.hints[named], r)
				}
			}
			if _, known := s.found[named]; !known && s.store.exactHints.Load() {
				s.found[named] = s.hints[named]
			}
		}
	}
}

func (k lookupKey) names(r readmodel.LookupRow) bool {
	return r.Type == string(k.kind) && r.Value == k.value
}

// target identifies a record by platform and identity, as in lookups.
type target struct {
	platform string
	identity string
}

func (t target) key() string { return t.platform + ":" + t.identity }

// read reads the main rows that are not cached, in one round.
func (s *session) read(ctx context.Context, targets []target) error {
	var r round
	apply := s.planRecords(&r, targets)
	if err := s.fetch(ctx, &r); err != nil {
		return err
	}
	apply()
	return nil
}

// planRecords adds the main rows that are not cached to a round. The caller calls apply after the round.
func (s *session) planRecords(r *round, targets []target) (apply func()) {
	var profiles []string
	asked := make(map[string]bool, len(targets))
	for _, t := range targets {
		if _, known := s.people[t.key()]; known || asked[t.key()] {
			continue
		}
		asked[t.key()] = true
		if t.platform == identity.Network {
			r.network.keys = append(r.network.keys, readmodel.ProfileHash(t.identity))
			profiles = append(profiles, t.identity)
			continue
		}
		if id, err := strconv.ParseInt(t.identity, 10, 64); err == nil {
			r.codehost.keys = append(r.codehost.keys, id)
		} else {
			s.people[t.key()] = nil
		}
	}
	r.seen.keys = append(r.seen.keys, r.network.keys...)
	for _, id := range r.codehost.keys {
		r.seen.keys = append(r.seen.keys, uint64(id)) //nolint:gosec // same conversion as in seen_versions
	}
	return func() {
		for i, id := range profiles {
			s.addNetwork(id, r.network.values[i], r.seen.values[i])
		}
		for i, id := range r.codehost.keys {
			s.addCodehost(id, r.codehost.values[i], r.seen.values[len(profiles)+i])
		}
	}
}

// addNetwork caches the record of a profile.
func (s *session) addNetwork(id string, rows []*readmodel.NetworkPersonRow, seen []readmodel.VersionBumpRow) {
	t := target{identity.Network, id}
	s.people[t.key()] = nil
	for _, r := range rows {
		if r.ProfileID == id && !r.Deleted && !s.store.isNetworkErased(r) {
			row := *r
			row.Version = readmodel.NewestVersion(record.KindNetworkPerson, id, row.Version, row.ContentHash, seen)
			s.people[t.key()] = &person{network: &row}
		}
	}
}

// addCodehost caches the record of an account.
func (s *session) addCodehost(id int64, r *readmodel.AnswerRow, seen []readmodel.VersionBumpRow) {
	t := target{identity.Codehost, strconv.FormatInt(id, 10)}
	s.people[t.key()] = nil
	if r != nil && !r.Deleted && !r.IsOrganization() && !s.store.isCodehostErased(r) {
		row := *s.store.withoutErasedAuthors(r)
		row.Version = readmodel.NewestVersion(record.KindCodehostPerson, t.identity, row.Version, row.ContentHash, seen)
		s.people[t.key()] = &person{codehost: &row, noReply: s.noReply.addressOf(r)}
	}
}

// candidates returns the records named by rows of lookups.
func candidates(p platform, rows []readmodel.LookupRow) []target {
	kind := readmodel.TargetNetworkPerson
	if p.name == identity.Codehost {
		kind = readmodel.TargetCodehostPerson
	}
	out := make([]target, 0, len(rows))
	for _, r := range rows {
		if r.TargetKind == kind {
			out = append(out, target{p.name, r.Target})
		}
	}
	return out
}

// candidatesOf returns the records named by the rows of a cached key.
func (s *session) candidatesOf(k lookupKey) []target { return candidates(k.platform(), s.found[k]) }

// platform returns the platform of the records named by the key's rows.
func (k lookupKey) platform() platform {
	if n := networkPlatform(); k.kind == n.username || k.kind == n.email || k.kind == n.declares {
		return n
	}
	return codehostPlatform()
}

// existing returns the candidates in rows that exist and pass, newest first. It reads rows that are not cached.
func (s *session) existing(
	ctx context.Context, p platform, rows []readmodel.LookupRow, pass func(*person) bool,
) ([]*person, error) {
	targets := candidates(p, rows)
	if err := s.read(ctx, targets); err != nil {
		return nil, err
	}
	var out []*person
	for _, t := range targets {
		if q := s.people[t.key()]; q != nil && pass(q) && !slices.Contains(out, q) {
			out = append(out, q)
		}
	}
	slices.SortFunc(out, newestFirst)
	return out, nil
}

// holder returns the current owner of a username; nil if there is none.
func (s *session) holder(ctx context.Context, p platform, key string) (*person, error) {
	rows, err := s.lookup(ctx, lookupKey{p.username, key})
	if err != nil {
		return nil, err
	}
	found, err := s.existing(ctx, p, rows, func(q *person) bool { return q.usernameKey() == key })
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

// getOne reads a single key.
func getOne[K comparable, V any](ctx context.Context, g *batchload.Loader[K, V], key K, out *V) error {
	values, err := g.Get(ctx, []K{key})
	if err != nil {
		return err
	}
	*out = values[0]
	return nil
}
