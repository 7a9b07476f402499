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

// Profile is what is known of an account.
type Profile struct {
	Platform string
	Username string // as the record has it
	Key      string // its comparison form
	Identity string // stable id on the platform
	Version  int64

	Names     []string // display names
	Bio       string   // bio or summary
	Headline  string
	Places    []string // cities, regions, countries and free text, the most exact first
	Country   string   // where the record states it by itself
	Employers []string // newest first
	Current   int      // how many of them are present ones
	Titles    []string
	Schools   []string
	Topics    []string // skills, programming languages
	Websites  []string
	Avatar    string
	Created   string
	Emails    []string // comparison forms
	Followers int64    // -1: not known
	// Declared are the accounts that fields of the record name, Mentioned those in
	// its texts and websites.
	Declared  []event.Account
	Mentioned []event.Account
	// Person is false for organizations, bots and public bodies.
	Person bool

	row *readmodel.ProfileRow // what it was made of; nil: not of the store
}

// Unrecorded is the profile of an account of which nothing is known.
func Unrecorded(a event.Account) *Profile {
	return &Profile{Platform: a.Platform, Username: a.Username, Key: identity.UsernameKey(a.Username), Followers: -1, Person: true}
}

// Account is the profile's account.
func (p *Profile) Account() event.Account {
	return event.Account{Platform: p.Platform, Username: p.Username}
}

// Is reports whether the account is the profile's.
func (p *Profile) Is(a event.Account) bool {
	return a.Platform == p.Platform && identity.UsernameKey(a.Username) == p.Key
}

// place is a location of the webset records.
type place struct {
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

// networkRecord is what is read of a rendered network-person.
type networkRecord struct {
	FullName  string `json:"full_name"`
	FirstName string `json:"first_name"`
	LastName  string `json:"last_name"`
	Headline  string `json:"headline"`
	Summary   string `json:"summary"`
	Photo     string `json:"photo"`
	Followers *int64 `json:"followers"`
	Location  place  `json:"location"`
	Position  job    `json:"current_position"`
	Jobs      []job  `json:"experience"`
	Education []struct {
		School struct {
			Name string `json:"name"`
		} `json:"school"`
	} `json:"education"`
	Skills []struct {
		Skill string `json:"skill"`
	} `json:"skills"`
	SocialAccounts []string `json:"social_accounts"`
	// Websites is a field that records.md does not name and that crawls bring.
	Websites text `json:"websites"`
}

// text is a list of texts, or one; what is neither is passed over.
type text []string

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (t *text) UnmarshalJSONFrom(d *jsontext.Decoder) error {
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

// Companies are the employers that a free-text field names: "Engineer @ Quenlix",
// "@quenlix @abara".
func Companies(field string) []string {
	var out []string
	for part := range strings.SplitSeq(field, "@") {
		if strings.Contains(part, " at ") {
			part = part[strings.LastIndex(part, " at ")+len(" at "):]
		}
		out = append(out, strings.Trim(part, " ,;/&|"))
	}
	if len(out) > 1 {
		out = out[1:] // what is before the first is a title
	}
	return out
}

// profile reads what a row says.
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
	if err := json.Unmarshal(object(row.Texts...), &n); err != nil {
		return nil, err
	}
	p := &Profile{
		Platform: identity.Network, Username: row.Username, Key: row.UsernameKey, Identity: row.ID, Version: row.Version,
		Names: distinct(n.FullName, strings.TrimSpace(n.FirstName+" "+n.LastName)), Bio: n.Summary, Headline: n.Headline,
		Places: distinct(n.Location.City, n.Location.State, n.Location.RawAddress, n.Location.Country), Country: n.Location.Country,
		Avatar: n.Photo, Emails: slices.Clone(row.EmailKeys), Followers: orUnknown(n.Followers), Person: true,
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
	p.Declared = append(accounts(identity.Codehost, row.CodehostKeys), accounts(identity.Microblog, row.MicroblogKeys)...)
	p.Websites = distinct(append(n.Websites, n.SocialAccounts...)...)
	r.mention(p, n.Headline, n.Summary)
	return p, nil
}

// codehostRecord is what is read of a rendered codehost-person.
type codehostRecord struct {
	FullName  string   `json:"full_name"`
	URL       string   `json:"url"`
	Bio       string   `json:"bio"`
	Avatar    string   `json:"avatar_url"`
	Blog      string   `json:"blog"`
	Website   string   `json:"personal_website"`
	Company   string   `json:"company"`
	Location  string   `json:"location"`
	Canonical place    `json:"location_canonical"`
	Type      string   `json:"type"`
	Followers *int64   `json:"followers"`
	Created   string   `json:"created_at"`
	Languages []string `json:"repo_languages"`
}

func (r *Reader) codehostProfile(row *readmodel.ProfileRow) (*Profile, error) {
	var c codehostRecord
	if err := json.Unmarshal(object(row.Texts...), &c); err != nil {
		return nil, err
	}
	p := &Profile{
		Platform: identity.Codehost, Username: row.Username, Key: row.UsernameKey, Identity: row.ID, Version: row.Version,
		Names: distinct(c.FullName), Bio: c.Bio, Places: distinct(c.Canonical.City, c.Location, c.Canonical.State, c.Canonical.Country),
		Country:   c.Canonical.Country,
		Employers: distinct(Companies(c.Company)...), Topics: distinct(c.Languages...), Websites: distinct(c.Blog, c.Website),
		Avatar: c.Avatar, Created: c.Created, Emails: slices.Clone(row.EmailKeys), Followers: orUnknown(c.Followers),
		Person: c.Type != "Organization" && c.Type != "Bot",
	}
	p.Current = len(p.Employers)
	p.Declared = append(accounts(identity.Network, row.NetworkKeys), accounts(identity.Microblog, row.MicroblogKeys)...)
	r.mention(p, c.Bio)
	return p, nil
}

func (r *Reader) microblogProfile(row *readmodel.ProfileRow) *Profile {
	var texts [7]string
	copy(texts[:], row.Texts)
	name, bio, location, website, avatar, created, accountType := texts[0], texts[1], texts[2], texts[3], texts[4], texts[5], texts[6]
	p := &Profile{
		Platform: identity.Microblog, Username: row.Username, Key: row.UsernameKey, Identity: row.ID, Version: row.Version,
		Names: distinct(name), Bio: bio, Places: distinct(location), Websites: distinct(website),
		Avatar: avatar, Created: created, Followers: row.Followers,
		Person: accountType == "" || accountType == "personal",
	}
	r.mention(p, bio)
	return p
}

// mention reads the accounts that texts and websites name.
func (r *Reader) mention(p *Profile, texts ...string) {
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

// object makes a JSON object of fragments.
func object(fragments ...string) []byte {
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

// distinct leaves out what is empty or repeated.
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
