package oracle

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/schemas/identity"
)

// The kinds of records (records.md).
const (
	NetworkPerson   = "network-person"
	NetworkCompany  = "network-company"
	CodehostPerson  = "codehost-person"
	CodehostRepo    = "codehost-repo"
	CodehostCommit  = "codehost-commit"
	MicroblogPerson = "microblog-person"
	AccountLink     = "account-link"
)

// version is the newest record of an identity.
type version struct {
	raw     []byte
	at      time.Time
	deleted bool
	// tied is set if another record has the same version and different content.
	tied bool
}

// supersede reports whether a record replaces the current one.
func (v *version) supersede(next version) bool {
	if v.raw == nil || next.at.After(v.at) {
		return true
	}
	if next.at.Equal(v.at) && !bytes.Equal(v.raw, next.raw) && !sameContent(v.raw, next.raw) {
		v.tied = true
	}
	return false
}

// sameContent compares two records of one identity. A separate repository or commit names its owner, an embedded one
// does not; the difference is ignored.
func sameContent(a, b []byte) bool {
	oa, ob := decodeObject(a), decodeObject(b)
	if (oa["user_id"] == nil) != (ob["user_id"] == nil) {
		delete(oa, "user_id")
		delete(ob, "user_id")
	}
	return reflect.DeepEqual(oa, ob)
}

// Profile is the newest version of a network-person.
type Profile struct {
	version
	ID       string
	Username string

	emails   []string
	declares map[string][]string // platform to username keys
}

// Account is the newest version of a codehost-person.
type Account struct {
	version
	ID       int64
	Username string

	organization bool // not found by person endpoints
	emails       []string
	declares     map[string][]string
}

// Company is the newest version of a network-company.
type Company struct {
	version
	ID        string
	Slug      string
	NetworkID string
}

// item is a repository or a commit; id is its ID or SHA as text.
type item struct {
	version
	id string
}

// complete is an owner's newest complete list of repositories or commits.
type complete struct {
	at  time.Time
	ids map[string]bool
}

type itemKey struct {
	owner int64
	id    string
}

type link struct {
	version
	a, b       end
	confidence float64
}

type end struct{ platform, key string }

// Store is the oracle. Add may be called concurrently; all other methods must be called after Seal, also concurrently.
type Store struct {
	platforms *identity.Platforms

	mu        sync.Mutex
	profiles  map[string]*Profile
	accounts  map[int64]*Account
	companies map[string]*Company
	microblog map[string]*version
	repos     map[itemKey]*item
	commits   map[itemKey]*item
	// complete lists by owner
	reposComplete, commitsComplete map[int64]*complete
	links                          map[string]*link
	addresses                      map[string]bool

	index
}

// New returns an empty oracle.
func New() *Store {
	return &Store{
		platforms: identity.Default(),
		profiles:  map[string]*Profile{}, accounts: map[int64]*Account{}, companies: map[string]*Company{},
		microblog: map[string]*version{},
		repos:     map[itemKey]*item{}, commits: map[itemKey]*item{},
		reposComplete: map[int64]*complete{}, commitsComplete: map[int64]*complete{},
		links: map[string]*link{}, addresses: map[string]bool{},
	}
}

// The fields that the oracle reads from records.
type (
	identifiers struct {
		SocialAccounts    []string `json:"social_accounts"`
		MicroblogUsername string   `json:"microblog_username"`
		Emails            []string `json:"emails"`
		PersonalEmail     string   `json:"personal_email"`
		Email             any      `json:"email"` // an unknown field, used if it is an address
	}
	networkPerson struct {
		identifiers
		ProfileID        string `json:"profile_id"`
		LastUpdated      string `json:"last_updated"`
		Deleted          bool   `json:"deleted"`
		Username         string `json:"username"`
		CodehostUsername string `json:"codehost_username"`
	}
	codehostPerson struct {
		identifiers
		UserID           int64            `json:"user_id"`
		LastUpdated      string           `json:"last_updated"`
		Deleted          bool             `json:"deleted"`
		Type             string           `json:"type"`
		CodehostUsername string           `json:"codehost_username"`
		NetworkUsername  string           `json:"network_username"`
		SchoolEmail      string           `json:"school_email"`
		AdditionalEmails []string         `json:"additional_emails"`
		Repos            []jsontext.Value `json:"repos"`
		ReposComplete    bool             `json:"repos_complete"`
		Commits          []jsontext.Value `json:"commits"`
		CommitsComplete  bool             `json:"commits_complete"`
	}
	networkCompany struct {
		CompanyID   string `json:"company_id"`
		LastUpdated string `json:"last_updated"`
		Deleted     bool   `json:"deleted"`
		NetworkSlug string `json:"network_slug"`
		NetworkID   string `json:"network_id"`
	}
	microblogPerson struct {
		UserID      string `json:"user_id"`
		LastUpdated string `json:"last_updated"`
		Deleted     bool   `json:"deleted"`
	}
	codehostRepo struct {
		UserID    int64  `json:"user_id"`
		ID        int64  `json:"id"`
		UpdatedAt string `json:"updated_at"`
		Deleted   bool   `json:"deleted"`
	}
	codehostCommit struct {
		UserID      int64  `json:"user_id"`
		SHA         string `json:"sha"`
		AuthorDate  string `json:"author_date"`
		AuthorEmail string `json:"author_email"`
		Deleted     bool   `json:"deleted"`
	}
	accountLink struct {
		A          linkedAccount `json:"a"`
		B          linkedAccount `json:"b"`
		Source     string        `json:"source"`
		ObservedAt string        `json:"observed_at"`
		Confidence *float64      `json:"confidence"`
		Deleted    bool          `json:"deleted"`
	}
	linkedAccount struct {
		Platform string `json:"platform"`
		Username string `json:"username"`
	}
)

func (h *identifiers) emails() []string {
	return slices.Concat(h.Emails, []string{givenEmail(h.Email), h.PersonalEmail})
}

func (h *codehostPerson) emails() []string {
	return slices.Concat(h.identifiers.emails(), []string{h.SchoolEmail}, h.AdditionalEmails)
}

// Add adds a record of a kind and retains it.
func (s *Store) Add(kind string, raw []byte) error {
	add, ok := map[string]func([]byte) error{
		NetworkPerson: s.addProfile, NetworkCompany: s.addCompany, CodehostPerson: s.addAccount, MicroblogPerson: s.addMicroblog,
		CodehostRepo: s.addRepo, CodehostCommit: s.addCommit, AccountLink: s.addLink,
	}[kind]
	if !ok {
		return fmt.Errorf("unknown kind %q", kind)
	}
	if err := add(zoned(raw)); err != nil {
		return fmt.Errorf("read a record of kind %s: %w", kind, err)
	}
	return nil
}

// withoutZone matches a date-time without a time zone in a date field.
var withoutZone = regexp.MustCompile(
	`("(?:start|end|issue_date|created_at|updated_at|author_date|last_updated|observed_at)"\s*:\s*"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?)"`)

// zoned returns a record with date-times without a zone converted to UTC, as ingest does (MAPPING.md, section 1,
// "Dates").
func zoned(raw []byte) []byte { return withoutZone.ReplaceAll(raw, []byte(`${1}Z"`)) }

func newVersion(raw []byte, date string, deleted bool) (version, error) {
	at, ok := instant(date)
	if !ok {
		return version{}, errors.New("no version")
	}
	return version{raw: raw, at: at, deleted: deleted}, nil
}

func (s *Store) remember(addresses []string) {
	for _, a := range addresses {
		if a != "" {
			s.addresses[a] = true
		}
	}
}

func (s *Store) addProfile(raw []byte) error {
	var h networkPerson
	if err := json.Unmarshal(raw, &h); err != nil {
		return err
	}
	v, err := newVersion(raw, h.LastUpdated, h.Deleted)
	if err != nil {
		return err
	}
	declares := s.declared(&h.identifiers, identity.Codehost, h.CodehostUsername)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remember(h.emails())
	if old := s.profiles[h.ProfileID]; old == nil || old.supersede(v) {
		s.profiles[h.ProfileID] = &Profile{version: v, ID: h.ProfileID, Username: h.Username, emails: h.emails(), declares: declares}
	}
	return nil
}

func (s *Store) addCompany(raw []byte) error {
	var h networkCompany
	if err := json.Unmarshal(raw, &h); err != nil {
		return err
	}
	v, err := newVersion(raw, h.LastUpdated, h.Deleted)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.companies[h.CompanyID]; old == nil || old.supersede(v) {
		s.companies[h.CompanyID] = &Company{version: v, ID: h.CompanyID, Slug: h.NetworkSlug, NetworkID: h.NetworkID}
	}
	return nil
}

func (s *Store) addMicroblog(raw []byte) error {
	var h microblogPerson
	if err := json.Unmarshal(raw, &h); err != nil {
		return err
	}
	v, err := newVersion(raw, h.LastUpdated, h.Deleted)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.microblog[h.UserID]; old == nil || old.supersede(v) {
		s.microblog[h.UserID] = &v
	}
	return nil
}

func (s *Store) addAccount(raw []byte) error {
	var h codehostPerson
	if err := json.Unmarshal(raw, &h); err != nil {
		return err
	}
	v, err := newVersion(raw, h.LastUpdated, h.Deleted)
	if err != nil {
		return err
	}
	declares := s.declared(&h.identifiers, identity.Network, h.NetworkUsername)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remember(h.emails())
	if err := s.addEmbedded(v, &h); err != nil {
		return err
	}
	if old := s.accounts[h.UserID]; old == nil || old.supersede(v) {
		s.accounts[h.UserID] = &Account{version: v, ID: h.UserID, Username: h.CodehostUsername, organization: h.Type == "Organization", emails: h.emails(), declares: declares}
	}
	return nil
}

// declared returns the username keys that a record declares on each platform (MAPPING.md, "Declared usernames").
func (s *Store) declared(h *identifiers, other, username string) map[string][]string {
	out := map[string][]string{}
	add := func(platform, username string) {
		if k := identity.NormalizeUsername(username); k != "" && !slices.Contains(out[platform], k) {
			out[platform] = append(out[platform], k)
		}
	}
	add(other, username)
	add(identity.Microblog, h.MicroblogUsername)
	for _, a := range s.platforms.FindAccounts(h.SocialAccounts) {
		add(a.Platform, a.Username)
	}
	return out
}

// addEmbedded adds the entries of embedded lists as separate records.
func (s *Store) addEmbedded(v version, h *codehostPerson) error {
	repos, commits := map[string]bool{}, map[string]bool{}
	for _, raw := range h.Repos {
		var r codehostRepo
		if err := json.Unmarshal(raw, &r); err != nil {
			return fmt.Errorf("repos: %w", err)
		}
		r.UserID = h.UserID
		if err := s.putRepo(raw, &r); err != nil {
			return fmt.Errorf("repos: %w", err)
		}
		repos[r.id()] = true
	}
	for _, raw := range h.Commits {
		var c codehostCommit
		if err := json.Unmarshal(raw, &c); err != nil {
			return fmt.Errorf("commits: %w", err)
		}
		c.UserID = h.UserID
		if err := s.putCommit(raw, &c); err != nil {
			return fmt.Errorf("commits: %w", err)
		}
		commits[c.SHA] = true
	}
	if h.ReposComplete && h.Repos != nil {
		s.putList(s.reposComplete, h.UserID, &complete{at: v.at, ids: repos})
	}
	if h.CommitsComplete && h.Commits != nil {
		s.putList(s.commitsComplete, h.UserID, &complete{at: v.at, ids: commits})
	}
	return nil
}

func (s *Store) putList(lists map[int64]*complete, owner int64, l *complete) {
	if old := lists[owner]; old == nil || l.at.After(old.at) {
		lists[owner] = l
	}
}

func (s *Store) addRepo(raw []byte) error {
	var h codehostRepo
	if err := json.Unmarshal(raw, &h); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.putRepo(raw, &h)
}

func (h *codehostRepo) id() string { return strconv.FormatInt(h.ID, 10) }

func (s *Store) putRepo(raw []byte, h *codehostRepo) error {
	v, err := newVersion(raw, h.UpdatedAt, h.Deleted)
	if err != nil {
		return err
	}
	key := itemKey{h.UserID, h.id()}
	if old := s.repos[key]; old == nil || old.supersede(v) {
		s.repos[key] = &item{version: v, id: h.id()}
	}
	return nil
}

func (s *Store) addCommit(raw []byte) error {
	var h codehostCommit
	if err := json.Unmarshal(raw, &h); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.putCommit(raw, &h)
}

func (s *Store) putCommit(raw []byte, h *codehostCommit) error {
	v, err := newVersion(raw, h.AuthorDate, h.Deleted)
	if err != nil {
		return err
	}
	s.remember([]string{h.AuthorEmail})
	key := itemKey{h.UserID, h.SHA}
	if old := s.commits[key]; old == nil || old.supersede(v) {
		s.commits[key] = &item{version: v, id: h.SHA}
	}
	return nil
}

func (s *Store) addLink(raw []byte) error {
	var h accountLink
	if err := json.Unmarshal(raw, &h); err != nil {
		return err
	}
	v, err := newVersion(raw, h.ObservedAt, h.Deleted)
	if err != nil {
		return err
	}
	l := &link{
		version: v, confidence: 1,
		a: end{h.A.Platform, identity.NormalizeUsername(h.A.Username)},
		b: end{h.B.Platform, identity.NormalizeUsername(h.B.Username)},
	}
	if h.Confidence != nil {
		l.confidence = *h.Confidence
	}
	ends := []string{l.a.platform + "/" + l.a.key, l.b.platform + "/" + l.b.key}
	slices.Sort(ends)
	id := strings.Join(append(ends, h.Source), " ")
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.links[id]; old == nil || old.supersede(v) {
		s.links[id] = l
	}
	return nil
}
