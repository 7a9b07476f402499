package finder

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"muster/discovery-worker/internal/evidence"
	"muster/discovery-worker/internal/people"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
)

// search collects the candidates of one discovery.
type search struct {
	finder *Finder
	model  *evidence.Model
	seed   *people.Profile

	candidates      map[people.Ref]*candidateSource
	keyCounts       map[people.Key]int             // number of records with a key
	profiles        map[people.Ref]*people.Profile // profiles read so far
	claimedByOthers map[people.Ref]bool            // candidates that another account of the seed's platform names
	selfAccounts    []*people.Profile              // accounts of the seed by declared links
	host            *hostLookups                   // live lookups
	cache           *readCache                     // reads of this discovery
	features        *evidence.FeatureCache         // derived features of this discovery
	prefetchChain   bool                           // whether reads include the keys of followTransitive
	population      *evidence.Population
	linkPopulation  *evidence.Population // identification only: of discovery from a candidate
	platforms       []string             // to search; nil: all except the seed's
}

func (f *Finder) newSearch(seed *people.Profile) *search {
	return &search{
		finder: f, model: f.model, seed: seed, candidates: make(map[people.Ref]*candidateSource), keyCounts: make(map[people.Key]int),
		profiles: make(map[people.Ref]*people.Profile), claimedByOthers: make(map[people.Ref]bool),
		host: new(hostLookups), cache: newReadCache(f.reader), features: evidence.NewFeatureCache(),
	}
}

// candidateSource is why a record is a candidate.
type candidateSource struct {
	// rank orders candidates if there are too many: links before names before usernames.
	rank int
	// usernames are those that the record must have now, unless anyUsername is set.
	usernames   []string
	anyUsername bool
	stated      []float32
}

// Ranks of candidate sources, best first.
const (
	rankLink = iota
	rankEmail
	rankName
	rankPhonetic
	rankUsername
	rankGuess
)

func (s *search) addCandidate(ref people.Ref, rank int) *candidateSource {
	l := s.candidates[ref]
	if l == nil {
		l = &candidateSource{rank: rank}
		s.candidates[ref] = l
	}
	l.rank = min(l.rank, rank)
	return l
}

// findSimilar adds candidates from the read models: by name in any script and spelling, nicknames,
// similar usernames, usernames derived from the name, and e-mail addresses.
func (s *search) findSimilar(ctx context.Context, profile *people.Profile) error {
	ranks := s.blockingKeys(profile)
	found, err := s.cache.lookup(ctx, slices.Collect(maps.Keys(ranks)))
	if err != nil {
		return err
	}
	for k, rank := range ranks {
		s.keyCounts[k] = len(found[k])
		for _, row := range found[k] {
			ref, ok := people.RefOf(row)
			switch {
			case !ok || ref.Platform == s.seed.Platform:
			default:
				s.addCandidate(ref, rank).anyUsername = true
			}
		}
	}
	return nil
}

// blockingKeys returns the lookup keys of findSimilar, with the ranks of their candidates.
func (s *search) blockingKeys(profile *people.Profile) map[people.Key]int {
	ranks := make(map[people.Key]int)
	addKey := func(k people.Key, rank int) {
		if _, have := ranks[k]; !have && k.Value != "" && len(ranks) < 3*readmodel.MaxKeys {
			ranks[k] = rank
		}
	}
	names := nameBlockingKeys(profile)
	platforms := s.platforms
	if platforms == nil {
		platforms = otherPlatforms(s.seed.Platform)
	}
	for _, platform := range platforms {
		if platform == profile.Platform {
			continue
		}
		for _, k := range names {
			rank := rankName
			if k[0] == '~' {
				rank = rankPhonetic
			}
			addKey(people.Key{Type: readmodel.LookupName(platform), Value: k}, rank)
		}
		addKey(people.Key{Type: readmodel.LookupUsername(platform), Value: profile.Key}, rankUsername)
		addKey(
			people.Key{Type: readmodel.LookupHandle(platform), Value: identity.UsernameBlockingKey(profile.Username)},
			rankUsername,
		)
		for _, n := range profile.Names {
			for _, g := range evidence.GuessUsernames(n) {
				addKey(people.Key{Type: readmodel.LookupHandle(platform), Value: g}, rankGuess)
			}
		}
		for _, e := range profile.Emails[:min(len(profile.Emails), 10)] {
			if platform != identity.Microblog {
				addKey(people.Key{Type: readmodel.LookupEmail(platform), Value: e}, rankEmail)
			}
			if mailbox := evidence.MailboxUsername(e); mailbox != "" {
				addKey(people.Key{Type: readmodel.LookupUsername(platform), Value: mailbox}, rankUsername)
				addKey(people.Key{Type: readmodel.LookupHandle(platform), Value: identity.UsernameBlockingKey(mailbox)},
					rankGuess)
			}
		}
	}
	// Namesakes on the seed's own platform are only counted.
	for _, k := range names {
		if k[0] != '~' && s.seed.Platform != "" {
			addKey(people.Key{Type: readmodel.LookupName(s.seed.Platform), Value: k}, rankName)
		}
	}
	return ranks
}

// prefetch reads the first keys of findLinked and findSimilar in one statement. On failure they
// read the keys themselves.
func (s *search) prefetch(ctx context.Context, profile *people.Profile) {
	_, _ = s.cache.lookup(ctx, append(s.linkKeys(profile).all(), slices.Collect(maps.Keys(s.blockingKeys(profile)))...))
}

// nameBlockingKeys returns the keys of a profile's names, including nicknames.
func nameBlockingKeys(p *people.Profile) []string {
	var keys []string
	add := func(list ...string) {
		for _, k := range list {
			if !slices.Contains(keys, k) && len(keys) < 40 {
				keys = append(keys, k)
			}
		}
	}
	for _, n := range p.Names {
		add(identity.NameBlockingKeys(n)...)
	}
	for _, n := range p.Names {
		tokens := identity.NameTokens(n)
		if len(tokens) < 2 {
			continue
		}
		for _, o := range [][2]string{{tokens[0], tokens[len(tokens)-1]}, {tokens[len(tokens)-1], tokens[0]}} {
			for _, nick := range evidence.Nicknames(o[0]) {
				add(identity.PairBlockingKeys(nick, o[1])[:min(1, len(identity.PairBlockingKeys(nick, o[1])))]...)
			}
		}
	}
	return keys
}

// readCandidates reads the candidates that are not read yet, at most maxCandidates for each
// platform. It then looks up inbound links.
func (s *search) readCandidates(ctx context.Context) error {
	byPlatform := make(map[string][]people.Ref)
	for ref := range s.candidates {
		byPlatform[ref.Platform] = append(byPlatform[ref.Platform], ref)
	}
	var refs []people.Ref
	add := func(list []people.Ref) {
		for _, ref := range list {
			if s.profiles[ref] == nil {
				refs = append(refs, ref)
			}
		}
	}
	for _, list := range byPlatform {
		slices.SortFunc(list, func(a, b people.Ref) int {
			return cmp.Or(cmp.Compare(s.candidates[a].rank, s.candidates[b].rank), cmp.Compare(a.Identity, b.Identity))
		})
		add(list[:min(len(list), maxCandidates)])
	}
	if len(refs) == 0 {
		return nil
	}
	profiles, err := s.cache.read(ctx, refs)
	if err != nil {
		return err
	}
	maps.Copy(s.profiles, profiles)
	return s.findInboundLinks(ctx, profiles)
}

// findInboundLinks looks up which candidates other accounts of the seed's platform name.
func (s *search) findInboundLinks(ctx context.Context, profiles map[people.Ref]*people.Profile) error {
	// A description has no account.
	if s.seed.Platform == "" {
		return nil
	}
	candidateOf := make(map[people.Key]people.Ref, len(profiles))
	keys := make([]people.Key, 0, len(profiles))
	for ref, p := range profiles {
		if ref.Platform != s.seed.Platform && p.Key != "" && p.Person {
			k := people.Key{Type: readmodel.LookupDeclared(s.seed.Platform, ref.Platform), Value: p.Key}
			candidateOf[k] = ref
			keys = append(keys, k)
		}
	}
	// The microblog has no fields for other accounts, only mentions.
	if s.seed.Platform == identity.Microblog {
		for i, k := range keys {
			mention := people.Key{Type: readmodel.LookupMention(s.seed.Platform, candidateOf[k].Platform),
				Value: k.Value}
			candidateOf[mention] = candidateOf[k]
			keys[i] = mention
		}
	}
	found, err := s.cache.lookup(ctx, append(s.transitiveKeys(profiles), keys...))
	if err != nil {
		return err
	}
	for _, k := range keys {
		for _, row := range found[k] {
			if ref, ok := people.RefOf(row); ok && ref.Identity != s.seed.Identity {
				s.claimedByOthers[candidateOf[k]] = true
			}
		}
	}
	return nil
}

// transitiveKeys returns the keys that followTransitive and findSimilar will need for linked
// profiles. Reading them along with others costs less than another statement. It returns none if
// links lead to all platforms.
func (s *search) transitiveKeys(profiles map[people.Ref]*people.Profile) []people.Key {
	if !s.prefetchChain {
		return nil
	}
	var linked []*people.Profile
	for ref, p := range profiles {
		if l := s.candidates[ref]; l != nil && l.rank == rankLink && p.Person && ref.Platform != s.seed.Platform {
			linked = append(linked, p)
		}
	}
	if len(linked) == 0 || len(linked) > maxPrefetch ||
		slices.ContainsFunc(linked, func(p *people.Profile) bool { return p.Platform != linked[0].Platform }) {
		return nil
	}
	var keys []people.Key
	for _, p := range linked {
		keys = append(append(keys, s.linkKeys(p).all()...), slices.Collect(maps.Keys(s.blockingKeys(p)))...)
	}
	return keys
}

// maxPrefetch is the maximum number of linked profiles whose keys are prefetched, though only one may be needed.
const maxPrefetch = 2

// rank compares the candidates with a profile.
func (s *search) rank(from *people.Profile) []RankedCandidates {
	byPlatform := make(map[string][]*evidence.Candidate)
	var names []string
	for _, n := range from.Names {
		names = append(names, identity.NameBlockingKeys(n)...)
	}
	for ref, p := range s.profiles {
		l := s.candidates[ref]
		if l == nil || ref.Platform == from.Platform || !l.anyUsername && !slices.Contains(l.usernames, p.Key) {
			continue
		}
		stated := l.stated
		if len(stated) > 0 && !slices.Contains(l.usernames, p.Key) {
			stated = nil // the username has moved to another account
		}
		byPlatform[ref.Platform] = append(byPlatform[ref.Platform], &evidence.Candidate{Pair: evidence.Pair{
			A: from, B: p, SelfAccounts: s.selfAccountsExcept(ref.Platform), LinkConfidences: stated,
			ClaimedByOther: s.claimedByOthers[ref], SameName: s.countSameName(from, names, p),
			Population: s.population, Features: s.features,
		}})
	}
	var out []RankedCandidates
	for _, platform := range otherPlatforms(from.Platform) {
		candidates := byPlatform[platform]
		s.model.Rank(candidates)
		out = append(out, RankedCandidates{Platform: platform, Candidates: candidates})
	}
	// An input that is contradicted once gets no matches without a link.
	if slices.ContainsFunc(out, func(c RankedCandidates) bool {
		return slices.ContainsFunc(c.Candidates, (*evidence.Candidate).IsContradicted)
	}) {
		for _, c := range out {
			for _, candidate := range c.Candidates {
				candidate.CapUnlinked()
			}
		}
	}
	return out
}

// selfAccountsExcept returns the seed's other accounts, except on a platform.
func (s *search) selfAccountsExcept(platform string) []*people.Profile {
	return slices.DeleteFunc(slices.Clone(s.selfAccounts), func(p *people.Profile) bool {
		return p.Platform == platform
	})
}

// countSameName returns how many other records on both platforms have the name that a and b share,
// by the keys of a's names.
func (s *search) countSameName(a *people.Profile, names []string, b *people.Profile) int {
	highest := 0
	for _, k := range names {
		if k[0] == '~' {
			continue
		}
		self := 1 // a description counts itself
		if a.Platform != "" {
			self = s.keyCounts[people.Key{Type: readmodel.LookupName(a.Platform), Value: k}]
		}
		other := s.keyCounts[people.Key{Type: readmodel.LookupName(b.Platform), Value: k}]
		highest = max(highest, max(self-1, 0)+max(other-1, 0))
	}
	return highest
}

// followTransitive follows the links of a profile that the input links to. What its owner declares
// holds for the input with the product of both confidences. Profiles found by score alone are not
// followed (rulings.md, Person enrichment).
func (s *search) followTransitive(ctx context.Context, best map[string]*resolved) error {
	for _, platform := range otherPlatforms(s.seed.Platform) {
		via := best[platform]
		if via == nil || !via.linked || via.confidence < minConfidenceToFollow {
			continue
		}
		for _, target := range otherPlatforms(s.seed.Platform) {
			if target == platform || best[target] != nil && best[target].linked &&
				best[target].confidence >= minConfidenceToFollow {
				continue
			}
			next := s.finder.newSearch(s.seed)
			next.host, next.cache, next.features, next.population = s.host, s.cache, s.features, s.population
			if err := next.findLinked(ctx, via.profile); err != nil {
				return err
			}
			if err := next.readCandidates(ctx); err != nil {
				return err
			}
			for _, c := range next.rank(via.profile) {
				if c.Platform != target || len(c.Candidates) == 0 {
					continue
				}
				top := c.Candidates[0]
				p := top.Confidence * via.confidence
				pair := evidence.Pair{A: s.seed, B: top.B, Features: s.features}
				if evidence.NamesContradict(pair) {
					continue
				}
				if have := best[target]; have == nil || have.confidence < p {
					best[target] = &resolved{
						profile: top.B, confidence: round(p), raw: round(top.Raw * via.raw), via: true,
						evidence: append([]event.Evidence{{Kind: "via", Finding: platform}},
							s.finder.model.Reasons(top)...),
					}
				}
			}
		}
	}
	return nil
}
