package resolution

import (
	"cmp"
	"slices"
	"strings"
)

// Webset is one of the two person websets. It indexes the arrays of this package.
type Webset uint8

// The person websets.
const (
	Codehost Webset = iota
	Network
)

// Other returns the other webset.
func (w Webset) Other() Webset { return 1 - w }

// Record is a person's record in its newest version.
type Record struct {
	Webset   Webset
	Identity string // user_id in decimal, or profile_id
	Username string
	Emails   []string
	Declares []string // declared usernames of the other webset
	Updated  int64    // its version
}

// AccountLink is a record of kind account-link between the two websets.
type AccountLink struct {
	Usernames  [2]string // by Webset
	Declared   bool      // false: a guess with sufficient confidence
	Confidence float64
	Observed   int64
}

// Discovered is a stored discovery result that links two accounts with sufficient confidence.
type Discovered struct {
	Accounts   [2]Account // by Webset
	Confidence float64
	Found      int64
}

// Account is an account in a discovery result. Identity is empty if it had no record.
type Account struct{ Username, Identity string }

// Rows is the input data of a resolution.
type Rows struct {
	Records      []Record
	AccountLinks []AccountLink
	Discovered   []Discovered
}

// Query is a person enrichment query. Empty identifiers are ignored.
type Query struct {
	Usernames [2]string // specific identifier by Webset
	Emails    []string  // forms of one address; the first form with a match is used
	Requested [2]bool   // by Webset
}

// Step is how a record was found. Smaller steps take precedence.
type Step uint8

// The steps of a webset, in their order.
const (
	OwnIdentifier    Step = iota + 1 // by the specific identifier of the webset
	LinkOfIdentifier                 // by a link of the account named by the other specific identifier
	ByEmail                          // by the email address
	LinkOfEmail                      // by a link of the other webset's record with the email address
)

// Match is the record that answers a webset. The zero value is a miss.
type Match struct {
	Record *Record
	Step   Step
	Link   Link // link that led to it; zero for other steps
}

// Link is a link that was followed from an account to a record of the other webset.
type Link struct {
	From       *Record // nil if the account has no record
	Username   string  // username of the account
	To         *Record
	Declared   bool
	Discovered bool
	Confidence float64
	stated     int64
}

// Resolve returns the record that answers each requested webset. Each webset is resolved independently, step by step.
// Records of two people are never combined: if two records contradict each other, the one with the smaller step is
// kept, at equal steps that of the code host, and the other webset uses its next record that does not contradict.
func Resolve(q Query, rows Rows) [2]Match {
	var found [2][]Match
	for _, w := range []Webset{Codehost, Network} {
		if q.Requested[w] {
			found[w] = candidates(q, rows, w)
		}
	}
	var out [2]Match
	primary := Codehost
	switch codehost, network := found[Codehost], found[Network]; {
	case len(codehost) == 0:
		primary = Network
	case len(network) > 0 && network[0].Step < codehost[0].Step:
		primary = Network
	}
	if len(found[primary]) == 0 {
		return out
	}
	out[primary] = found[primary][0]
	for _, m := range found[primary.Other()] {
		if !contradict(rows, out[primary].Record, m.Record) {
			out[primary.Other()] = m
			break
		}
	}
	return out
}

// candidates returns the records that may answer a webset, best first.
func candidates(q Query, rows Rows, w Webset) []Match {
	var out []Match
	if own := Holder(rows, w, q.Usernames[w]); own != nil {
		out = append(out, Match{Record: own, Step: OwnIdentifier})
	}
	if username := q.Usernames[w.Other()]; username != "" {
		source := Holder(rows, w.Other(), username)
		for _, l := range Follow(rows, w.Other(), username, source) {
			out = append(out, Match{Record: l.To, Step: LinkOfIdentifier, Link: l})
		}
	}
	for _, r := range EmailHolders(rows, w, q.Emails) {
		out = append(out, Match{Record: r, Step: ByEmail})
	}
	if sources := EmailHolders(rows, w.Other(), q.Emails); len(sources) > 0 {
		for _, l := range Follow(rows, w.Other(), sources[0].Username, sources[0]) {
			out = append(out, Match{Record: l.To, Step: LinkOfEmail, Link: l})
		}
	}
	return out
}

// contradict reports whether a declared link of one of two records names an account other than the second.
func contradict(rows Rows, a, b *Record) bool { return denies(rows, a, b) || denies(rows, b, a) }

// denies reports whether the declared links of r lead to records other than other. Links declared by r itself take
// precedence over those that other records declare.
func denies(rows Rows, r, other *Record) bool {
	if len(r.Declares) > 0 {
		return !slices.Contains(r.Declares, other.Username)
	}
	linked := false
	for i := range rows.Records {
		if by := &rows.Records[i]; by.Webset == other.Webset && names(by, r.Username) {
			if same(by, other) {
				return false
			}
			linked = true
		}
	}
	for _, l := range rows.AccountLinks {
		if l.Declared && r.Username != "" && l.Usernames[r.Webset] == r.Username {
			if l.Usernames[other.Webset] == other.Username {
				return false
			}
			linked = true
		}
	}
	return linked
}

// Follow returns the links of an account to records of the other webset, best first: declared links before guesses,
// then by confidence, then the most recently stated. record is the account's own record, or nil. A discovered link is
// followed only if no other link leads to a record.
func Follow(rows Rows, from Webset, username string, record *Record) []Link {
	links := Stated(rows, from, username, record)
	if len(links) > 0 {
		return links
	}
	l := MostConfident(rows, from, username, record)
	if l.To == nil {
		return nil
	}
	// The target must not belong to another account, by its declared links or by a more confident result.
	if names := l.To.Declares; len(names) > 0 && !slices.Contains(names, username) {
		return nil
	}
	if len(Stated(rows, l.To.Webset, l.To.Username, l.To)) > 0 {
		return nil
	}
	if record != nil {
		if back := MostConfident(rows, l.To.Webset, l.To.Username, l.To); back.To != nil && !same(back.To, record) {
			return nil
		}
	}
	return []Link{l}
}

// Stated returns the stated links of an account, best first: those that its own record declares, those of records that
// declare it, and account-links.
func Stated(rows Rows, from Webset, username string, record *Record) []Link {
	var links []Link
	add := func(to *Record, declared bool, confidence float64, stated int64) {
		if to != nil {
			links = append(links, Link{
				From: record, Username: username, To: to, Declared: declared, Confidence: confidence, stated: stated,
			})
		}
	}
	if record != nil {
		for _, d := range record.Declares {
			add(Holder(rows, from.Other(), d), true, 1, record.Updated)
		}
	}
	for i := range rows.Records {
		if by := &rows.Records[i]; by.Webset != from && names(by, username) {
			add(by, true, 1, by.Updated)
		}
	}
	for _, l := range rows.AccountLinks {
		if username != "" && l.Usernames[from] == username {
			add(Holder(rows, from.Other(), l.Usernames[from.Other()]), l.Declared, l.Confidence, l.Observed)
		}
	}
	slices.SortFunc(links, compareLinks)
	return links
}

// MostConfident returns the discovered link of an account with the highest confidence; To is nil if there is none. Both
// records must have the identities of the discovery result.
func MostConfident(rows Rows, from Webset, username string, record *Record) Link {
	var links []Link
	for _, d := range rows.Discovered {
		here, there := d.Accounts[from], d.Accounts[from.Other()]
		if username == "" || here.Username != username || here.Identity != identityOf(record) || there.Identity == "" {
			continue
		}
		i := slices.IndexFunc(rows.Records, func(r Record) bool {
			return r.Webset != from && r.Identity == there.Identity
		})
		if i >= 0 {
			links = append(links, Link{
				From: record, Username: username, To: &rows.Records[i],
				Discovered: true, Confidence: d.Confidence, stated: d.Found,
			})
		}
	}
	if len(links) == 0 {
		return Link{}
	}
	return slices.MinFunc(links, compareLinks)
}

// compareLinks orders links best first.
func compareLinks(a, b Link) int {
	if a.Declared != b.Declared {
		if a.Declared {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(b.Confidence, a.Confidence), cmp.Compare(b.stated, a.stated), compareIdentity(a.To, b.To))
}

// EmailHolders returns the records of a webset with an email address, the most recently updated first. Only the first
// form of the address with a match is used.
func EmailHolders(rows Rows, w Webset, forms []string) []*Record {
	for _, form := range forms {
		var out []*Record
		for i := range rows.Records {
			if r := &rows.Records[i]; r.Webset == w && slices.Contains(r.Emails, form) {
				out = append(out, r)
			}
		}
		if len(out) > 0 {
			slices.SortFunc(out, compareNewest)
			return out
		}
	}
	return nil
}

// Holder returns the record with a current username; of several, the most recently updated.
func Holder(rows Rows, w Webset, username string) *Record {
	var best *Record
	for i := range rows.Records {
		r := &rows.Records[i]
		if r.Webset == w && username != "" && r.Username == username && (best == nil || compareNewest(r, best) < 0) {
			best = r
		}
	}
	return best
}

// names reports whether a record's own fields name an account of the other webset.
func names(r *Record, username string) bool {
	return username != "" && slices.Contains(r.Declares, username)
}

func same(a, b *Record) bool { return a.Webset == b.Webset && a.Identity == b.Identity }

func identityOf(r *Record) string {
	if r == nil {
		return ""
	}
	return r.Identity
}

// compareNewest orders records by update, the newest first, then by identity.
func compareNewest(a, b *Record) int {
	return cmp.Or(cmp.Compare(b.Updated, a.Updated), compareIdentity(a, b))
}

// compareIdentity orders records of one webset: user ids by value, profile ids by bytes.
func compareIdentity(a, b *Record) int {
	if a.Webset == Codehost {
		return cmp.Or(cmp.Compare(len(a.Identity), len(b.Identity)), strings.Compare(a.Identity, b.Identity))
	}
	return strings.Compare(a.Identity, b.Identity)
}
