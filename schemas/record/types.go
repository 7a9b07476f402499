package record

import (
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/schemas/integer"
)

// Unknown fields are kept in Unknown at every level and served unchanged (records.md, "Unknown fields"). A
// null, an empty string, array or object in a known optional field counts as absent: it is not "present" in
// the sense of rulings.md, Websets, and is left out of answers.

// NetworkPerson is one profile of the professional network
// (records.md, kind network-person; interface.md, "Professional-network person
// webset record").
type NetworkPerson struct {
	ProfileID   string `json:"profile_id"`
	LastUpdated string `json:"last_updated"`
	Deleted     bool   `json:"deleted,omitzero"`

	Username   string `json:"username,omitempty"`
	FirstName  string `json:"first_name,omitempty"`
	MiddleName string `json:"middle_name,omitempty"`
	LastName   string `json:"last_name,omitempty"`
	FullName   string `json:"full_name,omitempty"`
	URL        string `json:"url,omitempty"`
	Photo      string `json:"photo,omitempty"`
	Headline   string `json:"headline,omitempty"`
	Summary    string `json:"summary,omitempty"`

	Location    *Location `json:"location,omitempty"`
	Connections *int64    `json:"connections,omitempty"`
	Followers   *int64    `json:"followers,omitempty"`
	Following   *int64    `json:"following,omitempty"`

	CurrentPosition *Position       `json:"current_position,omitempty"`
	Experience      []Position      `json:"experience,omitempty"`
	Education       []Education     `json:"education,omitempty"`
	Certifications  []Certification `json:"certifications,omitempty"`
	Languages       []Language      `json:"languages,omitempty"`
	Skills          []Skill         `json:"skills,omitempty"`

	CodehostUsername  string   `json:"codehost_username,omitempty"`
	MicroblogUsername string   `json:"microblog_username,omitempty"`
	SocialAccounts    []string `json:"social_accounts,omitempty"`
	Emails            []string `json:"emails,omitempty"`
	PersonalEmail     string   `json:"personal_email,omitempty"`

	Unknown jsontext.Value `json:",embed"`
}

// Location is a location as given by the professional network.
type Location struct {
	City        string         `json:"city,omitempty"`
	State       string         `json:"state,omitempty"`
	Country     string         `json:"country,omitempty"`
	CountryCode string         `json:"country_code,omitempty"`
	Continent   string         `json:"continent,omitempty"`
	RawAddress  string         `json:"raw_address,omitempty"`
	Unknown     jsontext.Value `json:",embed"`
}

// Position is one job: an experience entry, or the current position.
type Position struct {
	Summary     string         `json:"summary,omitempty"`
	Title       string         `json:"title,omitempty"`
	Description string         `json:"description,omitempty"`
	Start       PartialDate    `json:"start,omitempty"`
	End         PartialDate    `json:"end,omitempty"`
	Current     *bool          `json:"current,omitempty"`
	Location    *Location      `json:"location,omitempty"`
	Company     *CompanyRef    `json:"company,omitempty"`
	Unknown     jsontext.Value `json:",embed"`
}

// CompanyRef is the company of a position.
type CompanyRef struct {
	Name       string         `json:"name,omitempty"`
	NetworkURL string         `json:"network_url,omitempty"`
	CompanyID  string         `json:"company_id,omitempty"`
	Unknown    jsontext.Value `json:",embed"`
}

// Education is one education entry.
type Education struct {
	Summary      string         `json:"summary,omitempty"`
	Start        PartialDate    `json:"start,omitempty"`
	End          PartialDate    `json:"end,omitempty"`
	Current      *bool          `json:"current,omitempty"`
	Location     *Location      `json:"location,omitempty"`
	Degrees      []string       `json:"degrees,omitempty"`
	Majors       []string       `json:"majors,omitempty"`
	Minors       []string       `json:"minors,omitempty"`
	FieldOfStudy string         `json:"field_of_study,omitempty"`
	School       *SchoolRef     `json:"school,omitempty"`
	Unknown      jsontext.Value `json:",embed"`
}

// SchoolRef is the school of an education entry.
type SchoolRef struct {
	Name       string         `json:"name,omitempty"`
	NetworkURL string         `json:"network_url,omitempty"`
	SchoolID   string         `json:"school_id,omitempty"`
	Unknown    jsontext.Value `json:",embed"`
}

// Certification is one certificate.
type Certification struct {
	CredentialID  string         `json:"credential_id,omitempty"`
	CredentialURL string         `json:"credential_url,omitempty"`
	Issuer        string         `json:"issuer,omitempty"`
	Name          string         `json:"name,omitempty"`
	IssueDate     PartialDate    `json:"issue_date,omitempty"`
	Unknown       jsontext.Value `json:",embed"`
}

// Language is one language and its proficiency.
type Language struct {
	Language    string         `json:"language,omitempty"`
	Proficiency string         `json:"proficiency,omitempty"`
	Unknown     jsontext.Value `json:",embed"`
}

// Skill is one skill.
type Skill struct {
	Skill   string         `json:"skill,omitempty"`
	Unknown jsontext.Value `json:",embed"`
}

// NetworkCompany is one company of the professional network
// (records.md, kind network-company; interface.md, "Company").
type NetworkCompany struct {
	CompanyID   string `json:"company_id"`
	LastUpdated string `json:"last_updated"`
	Deleted     bool   `json:"deleted,omitzero"`

	NetworkSlug  string          `json:"network_slug,omitempty"`
	NetworkID    string          `json:"network_id,omitempty"`
	Profile      *CompanyProfile `json:"profile,omitempty"`
	Headquarters *Headquarters   `json:"headquarters,omitempty"`
	Images       *CompanyImages  `json:"images,omitempty"`

	Unknown jsontext.Value `json:",embed"`
}

// CompanyProfile is a company's self-description.
type CompanyProfile struct {
	Name        string         `json:"name,omitempty"`
	Tagline     string         `json:"tagline,omitempty"`
	Description string         `json:"description,omitempty"`
	Industry    string         `json:"industry,omitempty"`
	CompanySize string         `json:"company_size,omitempty"`
	Employees   *int64         `json:"employees,omitempty"`
	Founded     *int64         `json:"founded,omitempty"`
	Website     string         `json:"website,omitempty"`
	Phone       string         `json:"phone,omitempty"`
	Specialties []string       `json:"specialties,omitempty"`
	Unknown     jsontext.Value `json:",embed"`
}

// Headquarters is a company's main address.
type Headquarters struct {
	City       string         `json:"city,omitempty"`
	Region     string         `json:"region,omitempty"`
	Country    string         `json:"country,omitempty"`
	PostalCode string         `json:"postal_code,omitempty"`
	Line1      string         `json:"line1,omitempty"`
	Line2      string         `json:"line2,omitempty"`
	Unknown    jsontext.Value `json:",embed"`
}

// CompanyImages are the URLs of a company's images.
type CompanyImages struct {
	Logo    string         `json:"logo,omitempty"`
	Cover   string         `json:"cover,omitempty"`
	Unknown jsontext.Value `json:",embed"`
}

// CodehostPerson is one account of the code host (records.md, kind codehost-person; interface.md, "Code-hosting person
// webset record"). Embedded Repos and Commits are split off by SplitEmbedded and never published with the person.
type CodehostPerson struct {
	UserID      *int64 `json:"user_id"`
	LastUpdated string `json:"last_updated"`
	Deleted     bool   `json:"deleted,omitzero"`

	CodehostUsername string             `json:"codehost_username,omitempty"`
	Type             string             `json:"type,omitempty"`
	FirstName        string             `json:"first_name,omitempty"`
	LastName         string             `json:"last_name,omitempty"`
	FullName         string             `json:"full_name,omitempty"`
	Names            []string           `json:"names,omitempty"`
	AvatarURL        string             `json:"avatar_url,omitempty"`
	URL              string             `json:"url,omitempty"`
	Bio              string             `json:"bio,omitempty"`
	Blog             string             `json:"blog,omitempty"`
	Location         string             `json:"location,omitempty"`
	LocationCanon    *CanonicalLocation `json:"location_canonical,omitempty"`
	Company          string             `json:"company,omitempty"`
	Hireable         *bool              `json:"hireable,omitempty"`
	Followers        *int64             `json:"followers,omitempty"`
	Following        *int64             `json:"following,omitempty"`
	PublicRepos      *int64             `json:"public_repos,omitempty"`
	PublicGists      *int64             `json:"public_gists,omitempty"`
	CreatedAt        PartialDate        `json:"created_at,omitempty"`
	UpdatedAt        PartialDate        `json:"updated_at,omitempty"`
	RepoLanguages    []string           `json:"repo_languages,omitempty"`
	CommitCount      *int64             `json:"commit_count,omitempty"`

	PersonalEmail     string   `json:"personal_email,omitempty"`
	SchoolEmail       string   `json:"school_email,omitempty"`
	AdditionalEmails  []string `json:"additional_emails,omitempty"`
	Emails            []string `json:"emails,omitempty"`
	PersonalWebsite   string   `json:"personal_website,omitempty"`
	SocialAccounts    []string `json:"social_accounts,omitempty"`
	NetworkUsername   string   `json:"network_username,omitempty"`
	MicroblogUsername string   `json:"microblog_username,omitempty"`

	// Arrays that the interface names without defining their elements: any JSON values.
	StarredRepos     []jsontext.Value `json:"starred_repos,omitempty"`
	Issues           []jsontext.Value `json:"issues,omitempty"`
	FollowerAccounts []jsontext.Value `json:"follower_accounts,omitempty"`
	FollowedAccounts []jsontext.Value `json:"followed_accounts,omitempty"`

	// Arrays of objects that SplitEmbedded extracts (records.md, table and rule 3).
	Repos           jsontext.Value `json:"repos,omitzero"`
	ReposComplete   bool           `json:"repos_complete,omitzero"`
	Commits         jsontext.Value `json:"commits,omitzero"`
	CommitsComplete bool           `json:"commits_complete,omitzero"`

	Unknown jsontext.Value `json:",embed"`
}

// CodehostList contains all of an owner's repositories, or all of an author's commits, at one time: older entries that
// it lacks are deleted (records.md, rule 3). Ingest creates one from each embedded list that is marked complete, with a
// separate identity, so that compaction and replay preserve it.
type CodehostList struct {
	UserID      *int64         `json:"user_id"`
	List        string         `json:"list"`
	LastUpdated string         `json:"last_updated"`
	Deleted     bool           `json:"deleted,omitzero"`
	Items       []string       `json:"items,omitempty"`
	Unknown     jsontext.Value `json:",embed"`
}

// CanonicalLocation is a geocoded place.
type CanonicalLocation struct {
	City        string         `json:"city,omitempty"`
	State       string         `json:"state,omitempty"`
	Country     string         `json:"country,omitempty"`
	CountryCode string         `json:"country_code,omitempty"`
	Latitude    *float64       `json:"latitude,omitempty"`
	Longitude   *float64       `json:"longitude,omitempty"`
	PostalCode  string         `json:"postal_code,omitempty"`
	Continent   string         `json:"continent,omitempty"`
	Label       string         `json:"label,omitempty"`
	Timezone    string         `json:"timezone,omitempty"`
	Unknown     jsontext.Value `json:",embed"`
}

// CodehostRepo is one repository of its owner (records.md, kind
// codehost-repo).
type CodehostRepo struct {
	UserID    *int64      `json:"user_id"`
	ID        *int64      `json:"id"`
	UpdatedAt string      `json:"updated_at"`
	Deleted   bool        `json:"deleted,omitzero"`
	Name      string      `json:"name,omitempty"`
	FullName  string      `json:"full_name,omitempty"`
	CreatedAt PartialDate `json:"created_at,omitempty"`

	Description     string         `json:"description,omitempty"`
	Language        string         `json:"language,omitempty"`
	StargazersCount *int64         `json:"stargazers_count,omitempty"`
	ForksCount      *int64         `json:"forks_count,omitempty"`
	Topics          []string       `json:"topics,omitempty"`
	Unknown         jsontext.Value `json:",embed"`
}

// CodehostCommit is one commit of its author (records.md, kind
// codehost-commit).
type CodehostCommit struct {
	UserID     *int64 `json:"user_id"`
	SHA        string `json:"sha"`
	AuthorDate string `json:"author_date"`
	Deleted    bool   `json:"deleted,omitzero"`

	Message     string         `json:"message,omitempty"`
	AuthorName  string         `json:"author_name,omitempty"`
	AuthorEmail string         `json:"author_email,omitempty"`
	AuthorLogin string         `json:"author_login,omitempty"`
	Repo        *CommitRepo    `json:"repo,omitempty"`
	Unknown     jsontext.Value `json:",embed"`
}

// CommitRepo is the repository of a commit.
type CommitRepo struct {
	FullName string         `json:"full_name,omitempty"`
	Language string         `json:"language,omitempty"`
	Unknown  jsontext.Value `json:",embed"`
}

// MicroblogPerson is one account of the microblog (records.md, kind
// microblog-person).
type MicroblogPerson struct {
	UserID      string `json:"user_id"`
	LastUpdated string `json:"last_updated"`
	Deleted     bool   `json:"deleted,omitzero"`

	Username    string         `json:"username,omitempty"`
	Name        string         `json:"name,omitempty"`
	Bio         string         `json:"bio,omitempty"`
	Location    string         `json:"location,omitempty"`
	Website     string         `json:"website,omitempty"`
	AvatarURL   string         `json:"avatar_url,omitempty"`
	Followers   *int64         `json:"followers,omitempty"`
	Following   *int64         `json:"following,omitempty"`
	CreatedAt   PartialDate    `json:"created_at,omitempty"`
	AccountType string         `json:"account_type,omitempty"`
	Unknown     jsontext.Value `json:",embed"`
}

// AccountLink states that two accounts belong to one person (records.md, kind account-link).
type AccountLink struct {
	A          Account  `json:"a"`
	B          Account  `json:"b"`
	Source     string   `json:"source"`
	ObservedAt string   `json:"observed_at"`
	Deleted    bool     `json:"deleted,omitzero"`
	Confidence *float64 `json:"confidence,omitempty"`

	Unknown jsontext.Value `json:",embed"`
}

// Account is an account by platform and username.
type Account struct {
	Platform string         `json:"platform"`
	Username string         `json:"username"`
	Unknown  jsontext.Value `json:",embed"`
}

// PartialDate is a date, a month ("2019-05"), a year ("2019") or a timestamp as given by the crawler
// (records.md, rule 4). It is validated at decoding.
type PartialDate string

// Erasure requests the erasure of the people with the identifiers (records.md, kind erasure). With Deleted it
// withdraws an earlier request.
type Erasure struct {
	Identifiers []ErasureIdentifier `json:"identifiers"`
	RequestedAt string              `json:"requested_at"`
	Deleted     bool                `json:"deleted,omitzero"`

	// Scope is "all" (the default), or the webset ("codehost", "network") whose records are erased.
	Scope string `json:"scope,omitempty"`
	// RequestedBy names the requester, Note the reference of the request. Both are stored.
	RequestedBy string `json:"requested_by,omitempty"`
	Note        string `json:"note,omitempty"`
	// Urgent requests deletion immediately instead of within a day.
	Urgent bool `json:"urgent,omitzero"`

	Unknown jsontext.Value `json:",embed"`
}

// ErasureIdentifier is an identifier, given either by value or by the SHA-256 of its normalized form in
// hexadecimal.
type ErasureIdentifier struct {
	Type    string         `json:"type"`
	Value   Scalar         `json:"value,omitempty"`
	SHA256  string         `json:"sha256,omitempty"`
	Unknown jsontext.Value `json:",embed"`
}

// Scalar is a string that may be given as a number.
type Scalar string

// UnmarshalJSONFrom reads a string or a number. It implements json.UnmarshalerFrom.
func (s *Scalar) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() == '0' {
		v, err := d.ReadValue()
		*s = Scalar(v)
		if n, ok := integer.Parse(v); ok { // 42.0 is the user id 42.
			*s = Scalar(strconv.FormatInt(n, 10))
		}
		return err
	}
	return json.UnmarshalDecode(d, (*string)(s))
}

// MaxIdentifiers is the maximum number of identifiers per erasure.
const MaxIdentifiers = 1000

// ErasureTypes returns the types of identifiers in erasures.
func ErasureTypes() []string {
	return []string{"email", "phone", "network_username", "codehost_username", "microblog_username", "profile_id",
		"user_id"}
}
