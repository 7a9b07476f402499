package evidence

import (
	"slices"
	"strings"

	"muster/discovery-worker/internal/people"
	"muster/schemas/identity"
)

// Notes keep what comparisons work out of profiles, so that who is compared with a
// hundred others is read once. They are those of one discovery, during which
// profiles do not change, and for one goroutine at a time.
type Notes struct{ profiles map[*people.Profile]*note }

// NewNotes returns empty notes.
func NewNotes() *Notes { return &Notes{profiles: make(map[*people.Profile]*note)} }

func (n *Notes) of(p *people.Profile) *note {
	have := n.profiles[p]
	if have == nil {
		have = &note{p: p}
		n.profiles[p] = have
	}
	return have
}

// once is a value that is worked out when it is first asked for.
type once[T any] struct {
	done  bool
	value T
}

func (o *once[T]) get(work func() T) T {
	if !o.done {
		o.value, o.done = work(), true
	}
	return o.value
}

// note is what comparisons work out of one profile.
type note struct {
	p *people.Profile

	usable    once[[]usableName]
	native    once[[]nativeName]
	lost      once[bool]
	handle    once[string]
	keyHandle once[string]
	flatKey   once[string]
	shown     once[[]shownHandle]
	boxes     once[[]box]
	text      once[string]
	bio       once[string]
	employers once[[]company]
	firms     once[[]company]
	schools   once[[]string]
	academies once[[]company]
	hosts     once[[]string]
	titles    once[[]string]
	places    once[[]placePart]
	latin     once[bool]
	country   once[string]
	sites     once[[]string]
	topics    once[map[string]bool]
	trade     once[string]
	disguise  once[bool]
	official  once[bool]
}

// usableName is a display name that is not the account's own handle.
type usableName struct {
	tokens []string
	plain  int
	// nicks are the other given names that may be used for the first token, and made
	// the given names that a username may be made of, with the usernames.
	nicks []string
	made  []madeOfGiven
}

type madeOfGiven struct {
	given string
	forms []string
}

func (n *note) names() []usableName {
	return n.usable.get(func() []usableName {
		var out []usableName
		for _, tokens := range usableNames(n.p) {
			u := usableName{tokens: tokens, plain: plain(tokens), nicks: Nicknames(tokens[0])}
			if len(tokens) > 1 {
				for _, g := range append([]string{tokens[0]}, u.nicks...) {
					u.made = append(u.made, madeOfGiven{g, forms(g, tokens[len(tokens)-1])})
				}
			}
			out = append(out, u)
		}
		return out
	})
}

func (n *note) whole() bool {
	return slices.ContainsFunc(n.names(), func(u usableName) bool { return whole(u.tokens) })
}

// nativeName is a display name in another script than the Latin one.
type nativeName struct {
	key    string
	tokens []string
}

func (n *note) natives() []nativeName {
	return n.native.get(func() []nativeName {
		var out []nativeName
		for _, name := range n.p.Names {
			if k := native(name); k != "" {
				out = append(out, nativeName{k, tokensOf(name)})
			}
		}
		return out
	})
}

func (n *note) lossy() bool { return n.lost.get(func() bool { return lossy(n.p.Names) }) }

// stem is identity.HandleKey of the username.
func (n *note) stem() string {
	return n.handle.get(func() string { return identity.HandleKey(n.p.Username) })
}

// keyStem is identity.HandleKey of the username's comparison form.
func (n *note) keyStem() string {
	return n.keyHandle.get(func() string { return identity.HandleKey(n.p.Key) })
}

func (n *note) flat() string { return n.flatKey.get(func() string { return flat(n.p.Key) }) }

// box is an e-mail address's part before the at sign.
type box struct{ flat, stem string }

func (n *note) mailboxes() []box {
	return n.boxes.get(func() []box {
		var out []box
		for _, e := range n.p.Emails {
			if b := Mailbox(e); b != "" {
				out = append(out, box{flat(b), identity.HandleKey(b)})
			}
		}
		return out
	})
}

// words are those of bio and headline, with a space around each.
func (n *note) words() string {
	return n.text.get(func() string { return " " + strings.Join(words(n.p.Bio+" "+n.p.Headline), " ") + " " })
}

func (n *note) bioWords() string {
	return n.bio.get(func() string { return " " + strings.Join(words(n.p.Bio), " ") + " " })
}

// company is a company's name as words, without its legal form.
type company struct {
	words          []string
	joined, spaced string
}

func companies(names []string) []company {
	out := make([]company, len(names))
	for i, name := range names {
		w := companyWords(name)
		out[i] = company{w, strings.Join(w, ""), strings.Join(w, " ")}
	}
	return out
}

func (n *note) companies() []company {
	return n.employers.get(func() []company { return companies(n.p.Employers) })
}

// namesAsFirms are the display names as if they were those of firms.
func (n *note) namesAsFirms() []company {
	return n.firms.get(func() []company { return companies(n.p.Names) })
}

// schoolWords are the schools as words with a space between.
func (n *note) schoolWords() []string {
	return n.schools.get(func() []string { return joined(n.p.Schools) })
}

// schoolsAsFirms are the schools as if they were firms.
func (n *note) schoolsAsFirms() []company {
	return n.academies.get(func() []company { return companies(n.p.Schools) })
}

// hostWords are the hosts of the e-mail addresses as one word each.
func (n *note) hostWords() []string {
	return n.hosts.get(func() []string {
		var out []string
		for _, e := range n.p.Emails {
			_, host, _ := strings.Cut(e, "@")
			if w := strings.Join(words(host), ""); w != "" {
				out = append(out, w)
			}
		}
		return out
	})
}

// titleWords are the first positions as words with a space between.
func (n *note) titleWords() []string {
	return n.titles.get(func() []string { return joined(n.p.Titles[:min(len(n.p.Titles), 20)]) })
}

func joined(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = strings.Join(words(s), " ")
	}
	return out
}

// placePart is a part of a place in the forms in which it is compared.
type placePart struct{ text, joined, consonants string }

func (n *note) placeParts() []placePart {
	return n.places.get(func() []placePart {
		var out []placePart
		for _, s := range placeParts(n.p.Places) {
			j := strings.ReplaceAll(s, " ", "")
			out = append(out, placePart{s, j, identity.Consonants(j)})
		}
		return out
	})
}

func (n *note) latinPlaces() bool { return n.latin.get(func() bool { return latin(n.p.Places) }) }

func (n *note) countryWords() string {
	return n.country.get(func() string { return strings.Join(words(n.p.Country), " ") })
}

func (n *note) websites() []string {
	return n.sites.get(func() []string { return sites(n.p.Websites) })
}

func (n *note) topicWords() map[string]bool {
	return n.topics.get(func() map[string]bool { return topicWords(n.p) })
}

func (n *note) tradeOf() string { return n.trade.get(func() string { return tradeOf(n.p) }) }

func (n *note) disguised() bool { return n.disguise.get(func() bool { return disguised(n.p) }) }

func (n *note) bearsOrganization() bool {
	return n.official.get(func() bool { return slices.ContainsFunc(n.p.Names, ofOrganizations) })
}

// shownHandle is a display name of one word, which may be a handle.
type shownHandle struct{ token, flat string }

func (n *note) handlesShown() []shownHandle {
	return n.shown.get(func() []shownHandle {
		var out []shownHandle
		for _, name := range n.p.Names {
			if tokens := identity.NameTokens(name); len(tokens) == 1 && len(tokens[0]) >= 5 {
				out = append(out, shownHandle{tokens[0], flat(identity.UsernameKey(name))})
			}
		}
		return out
	})
}
