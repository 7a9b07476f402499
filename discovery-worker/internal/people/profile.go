package people

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
)

// Profile is an account in the form that is compared.
type Profile struct {
	Platform string
	Username string // as in the record
	Key      string // normalized username
	Identity string // stable ID on the platform
	Version  int64

	Names     []string // display names
	Bio       string   // bio or summary
	Headline  string
	Places    []string // cities, regions, countries and free text, most specific first
	Country   string   // if the record has a country field
	Employers []string // newest first
	Current   int      // number of current employers
	Titles    []string
	Schools   []string
	Topics    []string // skills, programming languages
	Websites  []string
	Avatar    string
	Created   string
	Emails    []string // comparison keys
	Phones    []string // normalized, only if they were asked for
	Followers int64    // -1 if unknown
	// Declared are the accounts in fields of the record, Mentioned those in its texts and websites.
	Declared  []event.Account
	Mentioned []event.Account
	// Person is false for organizations, bots and public bodies.
	Person bool

	row *readmodel.ProfileRow // source row; nil if not from the store
}

// NewUnrecorded returns the profile of an account without a record.
func NewUnrecorded(a event.Account) *Profile {
	return &Profile{
		Platform:  a.Platform,
		Username:  a.Username,
		Key:       identity.NormalizeUsername(a.Username),
		Followers: -1,
		Person:    true,
	}
}

// Account returns the profile's account.
func (p *Profile) Account() event.Account {
	return event.Account{Platform: p.Platform, Username: p.Username}
}

// Is reports whether the account is the profile's.
func (p *Profile) Is(a event.Account) bool {
	return a.Platform == p.Platform && identity.NormalizeUsername(a.Username) == p.Key
}

// location is a location of the webset records.
type location struct {
	City       string `json:"city"`
	State      string `json:"state"`
	Country    string `json:"country"`
	RawAddress string `json:"raw_address"`
}

type job struct {
	Summary string `json:"summary"`
	Title   string `json:"title"`
	Current bool   `json:"current"`
	Company struct {
		Name string `json:"name"`
	} `json:"company"`
}

// networkRecord is the part of a rendered network-person that is used.
type networkRecord struct {
	FullName  string   `json:"full_name"`
	FirstName string   `json:"first_name"`
	LastName  string   `json:"last_name"`
	Headline  string   `json:"headline"`
	Summary   string   `json:"summary"`
	Photo     string   `json:"photo"`
	Followers *int64   `json:"followers"`
	Location  location `json:"location"`
	Position  job      `json:"current_position"`
	Jobs      []job    `json:"experience"`
	Education []struct {
		School struct {
			Name string `json:"name"`
		} `json:"school"`
	} `json:"education"`
	Skills []struct {
		Skill string `json:"skill"`
	} `json:"skills"`
	SocialAccounts []string `json:"social_accounts"`
	// Websites is not specified in records.md, but crawls contain it.
	Websites stringList `json:"websites"`
}

// stringList is an array of strings or one string. Other values are ignored.
type stringList []string

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (t *stringList) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	v, err := d.ReadValue()
	if err != nil {
		return err
	}
	var list []string
	var single string
	if json.Unmarshal(v, &list) != nil && json.Unmarshal(v, &single) == nil {
		list = []string{single}
	}
	*t = list
	return nil
}

// ParseCompanies returns the employers in a free-text field: "Engineer @ Quenlix", "@quenlix
// @abara".
func ParseCompanies(field string) []string {
	var out []string
	for part := range strings.SplitSeq(field, "@") {
		if strings.Contains(part, " at ") {
			part = part[strings.LastIndex(part, " at ")+len(" at "):]
		}
		out = append(out, strings.Trim(part, " ,;/&|"))
	}
	if len(out) > 1 {
		out = out[1:] // the part before the first @ is a title
	}
	return out
}

// profile converts a row.
func (r *Reader) profile(row *readmodel.ProfileRow) (p *Profile, err error) {
	switch row.Platform {
	case identity.Network:
		p, err = r.networkProfile(row)
	case identity.Codehost:
		p, err = r.codehostProfile(row)
	default:
		p = r.microblogProfile(row)
	}
	if err != nil {
		return nil, fmt.Errorf("read record: %w", err)
	}
	p.row = row
	return p, nil
}

func (r *Reader) networkProfile(row *readmodel.ProfileRow) (*Profile, error) {
	var n networkRecord
	if err := json.Unmarshal(joinFragments(row.Texts...), &n); err != nil {
		return nil, err
	}
	p := &Profile{
		Platform: identity.Network, Username: row.Username, Key: row.UsernameKey, Identity: row.ID,
		Version: row.Version, Names: distinct(n.FullName, strings.TrimSpace(n.FirstName+" "+n.LastName)),
		Bio: n.Summary, Headline: n.Headline, Places: distinct(n.Location.City, n.Location.State, n.Location.RawAddress,
			n.Location.Country),
		Country: n.Location.Country, Avatar: n.Photo, Emails: slices.Clone(row.EmailKeys),
		Followers: orUnknown(n.Followers), Person: true,
	}
	jobs := append([]job{n.Position}, n.Jobs...)
	var past []string
	for i, j := range jobs {
		if i == 0 || j.Current {
			p.Employers = append(p.Employers, j.Company.Name)
		} else {
			past = append(past, j.Company.Name)
		}
		p.Titles = append(p.Titles, j.Title, j.Summary)
	}
	p.Employers = distinct(p.Employers...)
	p.Current = len(p.Employers)
	p.Employers = distinct(append(p.Employers, past...)...)
	p.Titles = distinct(p.Titles...)
	for _, e := range n.Education {
		p.Schools = append(p.Schools, e.School.Name)
	}
	p.Schools = distinct(p.Schools...)
	for _, s := range n.Skills {
		p.Topics = append(p.Topics, s.Skill)
	}
	p.Topics = distinct(p.Topics...)
	p.Declared = append(accounts(identity.Codehost, row.CodehostKeys),
		accounts(identity.Microblog, row.MicroblogKeys)...)
	p.Websites = distinct(append(n.Websites, n.SocialAccounts...)...)
	r.addMentions(p, n.Headline, n.Summary)
	return p, nil
}

// codehostRecord is the part of a rendered codehost-person that is used.
type codehostRecord struct {
	FullName  string   `json:"full_name"`
	URL       string   `json:"url"`
	Bio       string   `json:"bio"`
	Avatar    string   `json:"avatar_url"`
	Blog      string   `json:"blog"`
	Website   string   `json:"personal_website"`
	Company   string   `json:"company"`
	Location  string   `json:"location"`
	Canonical location `json:"location_canonical"`
	Type      string   `json:"type"`
	Followers *int64   `json:"followers"`
	Created   string   `json:"created_at"`
	Languages []string `json:"repo_languages"`
}

func (r *Reader) codehostProfile(row *readmodel.ProfileRow) (*Profile, error) {
	var c codehostRecord
	if err := json.Unmarshal(joinFragments(row.Texts...), &c); err != nil {
		return nil, err
	}
	p := &Profile{
		Platform: identity.Codehost, Username: row.Username, Key: row.UsernameKey, Identity: row.ID,
		Version: row.Version, Names: distinct(c.FullName), Bio: c.Bio,
		Places:    distinct(c.Canonical.City, c.Location, c.Canonical.State, c.Canonical.Country),
		Country:   c.Canonical.Country,
		Employers: distinct(ParseCompanies(c.Company)...), Topics: distinct(c.Languages...),
		Websites: distinct(c.Blog, c.Website), Avatar: c.Avatar, Created: c.Created,
		Emails: slices.Clone(row.EmailKeys), Followers: orUnknown(c.Followers),
		Person: c.Type != "Organization" && c.Type != "Bot",
	}
	p.Current = len(p.Employers)
	p.Declared = append(accounts(identity.Network, row.NetworkKeys), accounts(identity.Microblog, row.MicroblogKeys)...)
	r.addMentions(p, c.Bio)
	return p, nil
}

func (r *Reader) microblogProfile(row *readmodel.ProfileRow) *Profile {
	var texts [7]string
	copy(texts[:], row.Texts)
	name, bio, location, website := texts[0], texts[1], texts[2], texts[3]
	avatar, created, accountType := texts[4], texts[5], texts[6]
	p := &Profile{
		Platform: identity.Microblog, Username: row.Username, Key: row.UsernameKey, Identity: row.ID,
		Version: row.Version, Names: distinct(name), Bio: bio, Places: distinct(location), Websites: distinct(website),
		Avatar: avatar, Created: created, Followers: row.Followers,
		Person: accountType == "" || accountType == "personal",
	}
	r.addMentions(p, bio)
	return p
}

// addMentions adds the accounts that texts and websites name.
func (r *Reader) addMentions(p *Profile, texts ...string) {
	var all []identity.Account
	for _, t := range texts {
		all = append(all, r.platforms.FindMentions(t)...)
	}
	all = append(all, r.platforms.FindAccounts(p.Websites)...)
	for _, a := range all {
		if a.Platform != p.Platform {
			p.Mentioned = append(p.Mentioned, event.Account{Platform: a.Platform, Username: a.Username})
		}
	}
}

// joinFragments returns a JSON object of rendered fragments.
func joinFragments(fragments ...string) []byte {
	b := []byte{'{'}
	for _, f := range fragments {
		if f == "" {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(b, f...)
	}
	return append(b, '}')
}

func accounts(platform string, keys []string) []event.Account {
	out := make([]event.Account, len(keys))
	for i, k := range keys {
		out[i] = event.Account{Platform: platform, Username: k}
	}
	return out
}

func orUnknown(n *int64) int64 {
	if n == nil {
		return -1
	}
	return *n
}

// distinct removes empty and repeated strings.
func distinct(list ...string) []string {
	var out []string
	seen := make(map[string]bool, len(list))
	for _, s := range list {
		s = strings.TrimSpace(s)
		if s != "" && !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}
