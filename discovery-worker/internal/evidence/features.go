package evidence

import (
	"slices"
	"strings"

	"muster/discovery-worker/internal/people"
	"muster/schemas/identity"
)

// FeatureCache caches the features of profiles for one discovery, during which profiles do not
// change. It is not safe for concurrent use.
type FeatureCache struct{ profiles map[*people.Profile]*features }

// NewFeatureCache returns an empty cache.
func NewFeatureCache() *FeatureCache {
	return &FeatureCache{profiles: make(map[*people.Profile]*features)}
}

func (n *FeatureCache) get(p *people.Profile) *features {
	have := n.profiles[p]
	if have == nil {
		have = &features{p: p}
		n.profiles[p] = have
	}
	return have
}

// lazy is a value that is computed on first use.
type lazy[T any] struct {
	done  bool
	value T
}

func (o *lazy[T]) get(work func() T) T {
	if !o.done {
		o.value, o.done = work(), true
	}
	return o.value
}

// features are the derived features of one profile.
type features struct {
	p *people.Profile

	usable          lazy[[]usableName]
	native          lazy[[]nativeName]
	lossyName       lazy[bool]
	handle          lazy[string]
	keyHandle       lazy[string]
	stripped        lazy[string]
	displayed       lazy[[]displayHandle]
	mailboxNames    lazy[[]mailbox]
	text            lazy[string]
	bio             lazy[string]
	employers       lazy[[]company]
	nameCompanies   lazy[[]company]
	schools         lazy[[]string]
	schoolCompanies lazy[[]company]
	hosts           lazy[[]string]
	titles          lazy[[]string]
	places          lazy[[]placePart]
	latin           lazy[bool]
	country         lazy[string]
	sites           lazy[[]string]
	topics          lazy[map[string]bool]
	profession      lazy[string]
	confusables     lazy[bool]
	organization    lazy[bool]
}

// usableName is a display name that is not the account's own handle.
type usableName struct {
	tokens []string
	// nicknames are other given names for the first token. forms are the usernames derived from
	// each given name and the family name.
	nicknames []string
	forms     []givenForms
}

type givenForms struct {
	given string
	forms []string
}

func (n *features) names() []usableName {
	return n.usable.get(func() []usableName {
		var out []usableName
		for _, tokens := range usableNames(n.p) {
			u := usableName{tokens: tokens, nicknames: Nicknames(tokens[0])}
			if len(tokens) > 1 {
				for _, g := range append([]string{tokens[0]}, u.nicknames...) {
					u.forms = append(u.forms, givenForms{g, usernameForms(g, tokens[len(tokens)-1])})
				}
			}
			out = append(out, u)
		}
		return out
	})
}

func (n *features) hasFullName() bool {
	return slices.ContainsFunc(n.names(), func(u usableName) bool { return isFullName(u.tokens) })
}

// nativeName is a display name in a non-Latin script.
type nativeName struct {
	key    string
	tokens []string
}

func (n *features) natives() []nativeName {
	return n.native.get(func() []nativeName {
		var out []nativeName
		for _, name := range n.p.Names {
			if k := nativeKey(name); k != "" {
				out = append(out, nativeName{k, identity.NameParts(name)})
			}
		}
		return out
	})
}

func (n *features) hasLossyName() bool {
	return n.lossyName.get(func() bool { return isLossyScript(n.p.Names) })
}

// stem returns identity.UsernameBlockingKey of the username.
func (n *features) stem() string {
	return n.handle.get(func() string { return identity.UsernameBlockingKey(n.p.Username) })
}

// keyStem returns identity.UsernameBlockingKey of the normalized username.
func (n *features) keyStem() string {
	return n.keyHandle.get(func() string { return identity.UsernameBlockingKey(n.p.Key) })
}

func (n *features) strippedKey() string {
	return n.stripped.get(func() string { return stripSeparators(n.p.Key) })
}

// mailbox is the local part of an e-mail address.
type mailbox struct{ stripped, stem string }

func (n *features) mailboxes() []mailbox {
	return n.mailboxNames.get(func() []mailbox {
		var out []mailbox
		for _, e := range n.p.Emails {
			if b := MailboxUsername(e); b != "" {
				out = append(out, mailbox{stripSeparators(b), identity.UsernameBlockingKey(b)})
			}
		}
		return out
	})
}

// words returns the words of bio and headline, with a space around each.
func (n *features) words() string {
	return n.text.get(func() string { return " " + strings.Join(words(n.p.Bio+" "+n.p.Headline), " ") + " " })
}

func (n *features) bioWords() string {
	return n.bio.get(func() string { return " " + strings.Join(words(n.p.Bio), " ") + " " })
}

// company is a company name as words, without its legal form.
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

func (n *features) companies() []company {
	return n.employers.get(func() []company { return companies(n.p.Employers) })
}

// namesAsCompanies returns the display names as company names.
func (n *features) namesAsCompanies() []company {
	return n.nameCompanies.get(func() []company { return companies(n.p.Names) })
}

// schoolWords returns the words of each school, joined by spaces.
func (n *features) schoolWords() []string {
	return n.schools.get(func() []string { return joined(n.p.Schools) })
}

// schoolsAsCompanies returns the schools as company names.
func (n *features) schoolsAsCompanies() []company {
	return n.schoolCompanies.get(func() []company { return companies(n.p.Schools) })
}

// hostWords returns the hosts of the e-mail addresses, as one word each.
func (n *features) hostWords() []string {
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

// titleWords returns the words of the first titles, joined by spaces.
func (n *features) titleWords() []string {
	return n.titles.get(func() []string { return joined(n.p.Titles[:min(len(n.p.Titles), 20)]) })
}

func joined(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = strings.Join(words(s), " ")
	}
	return out
}

// placePart is a part of a place in the forms that are compared.
type placePart struct{ text, joined, consonants string }

func (n *features) placeParts() []placePart {
	return n.places.get(func() []placePart {
		var out []placePart
		for _, s := range placeParts(n.p.Places) {
			j := strings.ReplaceAll(s, " ", "")
			out = append(out, placePart{s, j, identity.ConsonantSkeleton(j)})
		}
		return out
	})
}

func (n *features) latinPlaces() bool { return n.latin.get(func() bool { return isLatin(n.p.Places) }) }

func (n *features) countryWords() string {
	return n.country.get(func() string { return strings.Join(words(n.p.Country), " ") })
}

func (n *features) websites() []string {
	return n.sites.get(func() []string { return sites(n.p.Websites) })
}

func (n *features) topicWords() map[string]bool {
	return n.topics.get(func() map[string]bool { return topicWords(n.p) })
}

func (n *features) professionLevel() string {
	return n.profession.get(func() string { return professionOf(n.p) })
}

func (n *features) usesConfusables() bool {
	return n.confusables.get(func() bool { return usesConfusables(n.p) })
}

func (n *features) hasOrganizationName() bool {
	return n.organization.get(func() bool { return slices.ContainsFunc(n.p.Names, hasOrganizationWord) })
}

// displayHandle is a display name of one word, which may be a handle.
type displayHandle struct{ token, flat string }

func (n *features) displayHandles() []displayHandle {
	return n.displayed.get(func() []displayHandle {
		var out []displayHandle
		for _, name := range n.p.Names {
			if tokens := identity.NameTokens(name); len(tokens) == 1 && len(tokens[0]) >= 5 {
				out = append(out, displayHandle{tokens[0], stripSeparators(identity.NormalizeUsername(name))})
			}
		}
		return out
	})
}
