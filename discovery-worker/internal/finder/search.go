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

// search gathers candidates for one discovery.
type search struct {
	finder *Finder
	seed   *people.Profile

	candidates map[people.Ref]*lead
	counts     map[people.Key]int // how many hold a key
	rivals     map[people.Ref]bool
	profiles   map[people.Ref]*people.Profile // what was read
	claimed    map[people.Ref]bool            // candidates whom another account of the seed's platform names
	more       []*people.Profile              // accounts that are the seed's by declared links
	host       *host                          // what was asked of the code host
	known      *known                         // what was read for this discovery
	notes      *evidence.Notes                // what comparisons have worked out of it
	foresees   bool                           // what is read now is followed further
}

func (f *Finder) search(seed *people.Profile) *search {
	return &search{
		finder: f, seed: seed, candidates: make(map[people.Ref]*lead), counts: make(map[people.Key]int),
		rivals: make(map[people.Ref]bool), profiles: make(map[people.Ref]*people.Profile), claimed: make(map[people.Ref]bool),
		host: new(host), known: newKnown(f.reader), notes: evidence.NewNotes(),
	}
}

// lead is why a record is looked at.
type lead struct {
	// rank orders leads when there are too many: links before names before
	// usernames.
	rank int
	// username is the key that the record must hold now to count; empty: any.
	usernames []string
	anyhow    bool
	stated    []float32
}

// Ranks of leads.
const (
	rankLink = iota
	rankEmail
	rankName
	rankSound
	rankHandle
	rankGuess
)

func (s *search) add(ref people.Ref, rank int) *lead {
	l := s.candidates[ref]
	if l == nil {
		l = &lead{rank: rank}
		s.candidates[ref] = l
	}
	l.rank = min(l.rank, rank)
	return l
}

// similar searches the read models as a search engine: by name in any script and
// spelling, by nicknames, by usernames of the same making and by those that
// people make of such a name, and by a shared e-mail address.
func (s *search) similar(ctx context.Context, of *people.Profile) error {
	ranks := s.similarKeys(of)
	found, err := s.known.lookup(ctx, slices.Collect(maps.Keys(ranks)))
	if err != nil {
		return err
	}
	for k, rank := range ranks {
		s.counts[k] = len(found[k])
		for _, row := range found[k] {
			ref, ok := people.RefOf(row)
			switch {
			case !ok || ref == (people.Ref{Platform: s.seed.Platform, Identity: s.seed.Identity}):
			case ref.Platform == s.seed.Platform:
				s.rivals[ref] = true
			default:
				s.add(ref, rank).anyhow = true
			}
		}
	}
	return nil
}

// similarKeys are what similar looks up, with the rank of what is found by it.
func (s *search) similarKeys(of *people.Profile) map[people.Key]int {
	ranks := make(map[people.Key]int)
	ask := func(k people.Key, rank int) {
		if _, have := ranks[k]; !have && k.Value != "" && len(ranks) < 3*readmodel.MaxKeys {
			ranks[k] = rank
		}
	}
	names := nameKeys(of)
	for _, platform := range others(s.seed.Platform) {
		if platform == of.Platform {
			continue
		}
		for _, k := range names {
			rank := rankName
			if k[0] == '~' {
				rank = rankSound
			}
			ask(people.Key{Type: readmodel.LookupName(platform), Value: k}, rank)
		}
		ask(people.Key{Type: readmodel.LookupUsername(platform), Value: of.Key}, rankHandle)
		ask(people.Key{Type: readmodel.LookupHandle(platform), Value: identity.HandleKey(of.Username)}, rankHandle)
		for _, n := range of.Names {
			for _, g := range evidence.Guesses(n) {
				ask(people.Key{Type: readmodel.LookupHandle(platform), Value: g}, rankGuess)
			}
		}
		for _, e := range of.Emails[:min(len(of.Emails), 10)] {
			if platform != identity.Microblog {
				ask(people.Key{Type: readmodel.LookupEmail(platform), Value: e}, rankEmail)
			}
			if mailbox := evidence.Mailbox(e); mailbox != "" {
				ask(people.Key{Type: readmodel.LookupUsername(platform), Value: mailbox}, rankHandle)
				ask(people.Key{Type: readmodel.LookupHandle(platform), Value: identity.HandleKey(mailbox)}, rankGuess)
			}
		}
	}
	// Who else has the name on the seed's own platform.
	for _, k := range names {
		if k[0] != '~' && s.seed.Platform != "" {
			ask(people.Key{Type: readmodel.LookupName(s.seed.Platform), Value: k}, rankName)
		}
	}
	return ranks
}

// ahead reads what links and similar of a profile begin with in one go. What fails
// they ask for themselves.
func (s *search) ahead(ctx context.Context, of *people.Profile) {
	_, _ = s.known.lookup(ctx, append(s.linkKeys(of).all(), slices.Collect(maps.Keys(s.similarKeys(of)))...))
}

// nameKeys are the keys of a profile's names, with nicknames for the given name.
func nameKeys(p *people.Profile) []string {
	var keys []string
	add := func(list ...string) {
		for _, k := range list {
			if !slices.Contains(keys, k) && len(keys) < 40 {
				keys = append(keys, k)
			}
		}
	}
	for _, n := range p.Names {
		add(identity.NameKeys(n)...)
	}
	for _, n := range p.Names {
		tokens := identity.NameTokens(n)
		if len(tokens) < 2 {
			continue
		}
		for _, o := range [][2]string{{tokens[0], tokens[len(tokens)-1]}, {tokens[len(tokens)-1], tokens[0]}} {
			for _, nick := range evidence.Nicknames(o[0]) {
				add(identity.PairKeys(nick, o[1])[:min(1, len(identity.PairKeys(nick, o[1])))]...)
			}
		}
	}
	return keys
}

// read reads the candidates that were not read yet, at most maxCandidates of a
// platform, with the rivals of the seed, and looks up who else names them.
func (s *search) read(ctx context.Context) error {
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
	rivals := slices.SortedFunc(maps.Keys(s.rivals), func(a, b people.Ref) int { return cmp.Compare(a.Identity, b.Identity) })
	add(rivals[:min(len(rivals), maxRivals)])
	profiles, err := s.known.read(ctx, refs)
	if err != nil {
		return err
	}
	maps.Copy(s.profiles, profiles)
	return s.claims(ctx, profiles)
}

// claims looks up which candidates are named by other accounts of the seed's
// platform.
func (s *search) claims(ctx context.Context, profiles map[people.Ref]*people.Profile) error {
	if s.seed.Platform == "" { // a description is nobody's account
		return nil
	}
	asked := make(map[people.Key]people.Ref, len(profiles))
	keys := make([]people.Key, 0, len(profiles))
	for ref, p := range profiles {
		if ref.Platform != s.seed.Platform && p.Key != "" && p.Person {
			k := people.Key{Type: readmodel.LookupDeclared(s.seed.Platform, ref.Platform), Value: p.Key}
			asked[k] = ref
			keys = append(keys, k)
		}
	}
	if s.seed.Platform == identity.Microblog { // it has no fields for the accounts of others
		for i, k := range keys {
			mention := people.Key{Type: readmodel.LookupMention(s.seed.Platform, asked[k].Platform), Value: k.Value}
			asked[mention] = asked[k]
			keys[i] = mention
		}
	}
	found, err := s.known.lookup(ctx, append(s.aheadOfChain(profiles), keys...))
	if err != nil {
		return err
	}
	for _, k := range keys {
		for _, row := range found[k] {
			if ref, ok := people.RefOf(row); ok && ref.Identity != s.seed.Identity {
				s.claimed[asked[k]] = true
			}
		}
	}
	return nil
}

// aheadOfChain are the keys by which the links of whom a link leads to will be
// followed, and others of their name searched for, if they are believed: asked for
// with others they cost less than by themselves. When links lead to all platforms
// nothing is open, and there are none.
func (s *search) aheadOfChain(profiles map[people.Ref]*people.Profile) []people.Key {
	if !s.foresees {
		return nil
	}
	var linked []*people.Profile
	for ref, p := range profiles {
		if l := s.candidates[ref]; l != nil && l.rank == rankLink && p.Person && ref.Platform != s.seed.Platform {
			linked = append(linked, p)
		}
	}
	if len(linked) == 0 || len(linked) > maxAhead ||
		slices.ContainsFunc(linked, func(p *people.Profile) bool { return p.Platform != linked[0].Platform }) {
		return nil
	}
	var keys []people.Key
	for _, p := range linked {
		keys = append(append(keys, s.linkKeys(p).all()...), slices.Collect(maps.Keys(s.similarKeys(p)))...)
	}
	return keys
}

// maxAhead bounds for how many profiles is asked what only one of them may need.
const maxAhead = 2

// rank compares the candidates with a profile.
func (s *search) rank(from *people.Profile) []Considered {
	byPlatform := make(map[string][]*evidence.Candidate)
	var rivals []*people.Profile
	var names []string
	for _, n := range from.Names {
		names = append(names, identity.NameKeys(n)...)
	}
	handle := identity.HandleKey(from.Username)
	for ref, p := range s.profiles {
		if s.rivals[ref] && ref.Platform == from.Platform {
			rivals = append(rivals, p)
			continue
		}
		l := s.candidates[ref]
		if l == nil || ref.Platform == from.Platform || !l.anyhow && !slices.Contains(l.usernames, p.Key) {
			continue
		}
		stated := l.stated
		if len(stated) > 0 && !slices.Contains(l.usernames, p.Key) {
			stated = nil // the username has moved to somebody else
		}
		byPlatform[ref.Platform] = append(byPlatform[ref.Platform], &evidence.Candidate{Pair: evidence.Pair{
			A: from, B: p, More: s.moreFor(ref.Platform), Stated: stated, Claimed: s.claimed[ref],
			Namesakes: s.namesakes(from, names, p), Alike: s.alike(handle, p), Notes: s.notes,
		}})
	}
	slices.SortFunc(rivals, func(a, b *people.Profile) int { return cmp.Compare(a.Identity, b.Identity) })
	var out []Considered
	for _, platform := range others(from.Platform) {
		candidates := byPlatform[platform]
		for _, c := range candidates {
			c.Rivals = rivals
		}
		s.finder.model.Rank(candidates)
		out = append(out, Considered{Platform: platform, Candidates: candidates})
	}
	// Who is refuted once is believed nowhere without a link.
	if slices.ContainsFunc(out, func(c Considered) bool { return slices.ContainsFunc(c.Candidates, (*evidence.Candidate).Refuted) }) {
		for _, c := range out {
			for _, candidate := range c.Candidates {
				candidate.Doubt()
			}
		}
	}
	return out
}

// moreFor are the seed's accounts elsewhere than on a platform.
func (s *search) moreFor(platform string) []*people.Profile {
	return slices.DeleteFunc(slices.Clone(s.more), func(p *people.Profile) bool { return p.Platform == platform })
}

// namesakes is how many others have the name that a and b share, on both
// platforms, by the keys of a's names.
func (s *search) namesakes(a *people.Profile, names []string, b *people.Profile) int {
	most := 0
	for _, k := range names {
		if k[0] == '~' {
			continue
		}
		own := 1 // a description's
		if a.Platform != "" {
			own = s.counts[people.Key{Type: readmodel.LookupName(a.Platform), Value: k}]
		}
		other := s.counts[people.Key{Type: readmodel.LookupName(b.Platform), Value: k}]
		most = max(most, max(own-1, 0)+max(other-1, 0))
	}
	return most
}

// alike is how many others on b's platform have a username of the making of one
// with this identity.HandleKey.
func (s *search) alike(handle string, b *people.Profile) int {
	return max(0, s.counts[people.Key{Type: readmodel.LookupHandle(b.Platform), Value: handle}]-1)
}

// chain follows the links of a profile that a link of the input led to: what
// that profile's owner declares holds for the input as far as the first link
// does. A profile that was found by scoring alone is followed no further
// (rulings.md, Person enrichment).
func (s *search) chain(ctx context.Context, best map[string]*resolved) error {
	for _, platform := range others(s.seed.Platform) {
		via := best[platform]
		if via == nil || !via.linked || via.confidence < chained {
			continue
		}
		for _, target := range others(s.seed.Platform) {
			if target == platform || best[target] != nil && best[target].linked && best[target].confidence >= chained {
				continue
			}
			next := s.finder.search(s.seed)
			next.host, next.known, next.notes = s.host, s.known, s.notes
			if err := next.links(ctx, via.profile); err != nil {
				return err
			}
			if err := next.read(ctx); err != nil {
				return err
			}
			for _, c := range next.rank(via.profile) {
				if c.Platform != target || len(c.Candidates) == 0 {
					continue
				}
				top := c.Candidates[0]
				p := top.Confidence * via.confidence
				pair := evidence.Pair{A: s.seed, B: top.B, Notes: s.notes}
				if evidence.NamesContradict(pair, evidence.Compare(pair)) {
					continue
				}
				if have := best[target]; have == nil || have.confidence < p {
					best[target] = &resolved{
						profile: top.B, confidence: round(p), raw: round(top.Raw * via.raw), via: true,
						evidence: append([]event.Evidence{{Kind: "via", Finding: platform}}, s.finder.model.Reasons(top)...),
					}
				}
			}
		}
	}
	return nil
}
