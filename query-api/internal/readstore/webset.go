package readstore

import (
	"context"
	"slices"
	"strconv"

	"muster/schemas/identity"
	"muster/schemas/readmodel"
)

// NetworkQuery is a query of the network webset.
type NetworkQuery struct {
	Username string // identity.NormalizeUsername
	Codehost bool   // add-on codehost
	Email    bool   // add-on personal_email
	MustHave MustHave
}

// CodehostQuery is a query of the codehost webset.
type CodehostQuery struct {
	UserID   int64 // tried first, if HasID
	HasID    bool
	Username string // identity.NormalizeUsername
	Network  bool   // add-on network
	MustHave MustHave
}

// MustHave is a condition on a record: one of the fields must be present. The zero value is always met.
type MustHave struct {
	// Mask has the bits of stored fields (readmodel.NetworkFieldMask or
	// readmodel.CodehostFieldMask).
	Mask uint64
	// Link requires a link to a record of the other webset.
	Link bool
	// Repos and Commits require a visible repository or commit. Codehost webset only.
	Repos   bool
	Commits bool
}

// Query asks for one record: [PersonQuery], [CompanyQuery], [NetworkQuery] or [CodehostQuery].
type Query interface {
	answer(ctx context.Context, w *session) (Record, error)
}

// Record answers a query.
func (s *Store) Record(ctx context.Context, q Query) (Record, error) {
	return q.answer(ctx, s.session())
}

// Records answers queries in order, all in one go: each of their steps is one round of reads for all of them. each is
// called with each record, which it may change; its error ends the call.
func (s *Store) Records(ctx context.Context, queries []Query, each func(*Record) error) ([]Record, error) {
	out := make([]Record, len(queries))
	err := s.inStep(ctx, len(queries), func(w *session, i int) (err error) {
		if out[i], err = queries[i].answer(ctx, w); err != nil {
			return err
		}
		return each(&out[i])
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Record is a rendered record and the identities of its data.
type Record struct {
	// Body is a JSON object. That of a person enrichment has a member for each of Groups; that of a company enrichment
	// without a match is nil.
	Body []byte
	// Groups are the groups of fields in Body: websets, add-ons, or "company".
	Groups []string
	// Candidates are the companies that a query without a match may mean, best first.
	Candidates []Candidate
	// Unmet reports that there is a record, which does not meet MustHave; then it is rendered as a miss.
	Unmet bool
	// Identities are the records that it was rendered from, as "<kind> <identity>".
	Identities []string
	// Identifiers are the identifiers of those records (metering.Used).
	Identifiers []string
}

// Found reports whether there is a record.
func (r Record) Found() bool { return len(r.Identities) > 0 }

func newRecord(body []byte, groups []string, from ...*person) Record {
	return Record{Body: body, Groups: groups, Identities: identities(from...), Identifiers: identifiers(from...)}
}

// identities returns the identities of the non-nil records.
func identities(people ...*person) []string {
	out := make([]string, 0, len(people))
	for _, p := range people {
		switch {
		case p == nil:
		case p.network != nil:
			out = append(out, readmodel.TargetNetworkPerson+" "+p.network.ProfileID)
		default:
			out = append(out, readmodel.TargetCodehostPerson+" "+strconv.FormatInt(p.codehost.UserID, 10))
		}
	}
	return out
}

// identifiers returns the identifiers of the non-nil records.
func identifiers(people ...*person) []string {
	var out []string
	for _, p := range people {
		switch {
		case p == nil:
		case p.network != nil:
			out = appendIdentifiers(out, identity.Network, p.network.ProfileID, p.network.UsernameKey,
				p.network.EmailKeys)
		default:
			id := strconv.FormatInt(p.codehost.UserID, 10)
			out = appendIdentifiers(out, identity.Codehost, id, p.codehost.UsernameKey,
				slices.Concat(p.codehost.EmailKeys, p.codehost.DerivedEmailKeys()))
		}
	}
	return out
}

// appendIdentifiers appends identifiers in the form of [suppress.Set.Identifier].
func appendIdentifiers(out []string, platform, id, username string, emails []string) []string {
	out = append(out, platform+" id "+id)
	if username != "" {
		out = append(out, platform+" username "+username)
	}
	for _, e := range emails {
		out = append(out, platform+" email "+e)
	}
	return out
}

// empty is the record of a miss.
const empty = "{}"

// answer renders a record of the network webset (MAPPING.md, section 6), or "{}" if there is none or it does not meet
// MustHave.
func (q NetworkQuery) answer(ctx context.Context, w *session) (Record, error) {
	miss := Record{Body: []byte(empty)}
	if err := w.readHolders(ctx, networkPlatform(), q.Username, q.Codehost); err != nil {
		return miss, err
	}
	owner, err := w.holder(ctx, networkPlatform(), q.Username)
	if err != nil || owner == nil {
		return miss, err
	}
	met := q.MustHave == MustHave{} || owner.network.Present&q.MustHave.Mask != 0
	var other linked
	if met && q.Codehost || !met && q.MustHave.Link {
		if other, err = w.follow(ctx, owner); err != nil {
			return miss, err
		}
		met = met || other.person != nil
	}
	if !met {
		miss.Unmet = true
		return miss, nil
	}
	groups := []string{identity.Network}
	if q.Codehost {
		groups = append(groups, readmodel.FieldCodehost)
	}
	if q.Email {
		groups = append(groups, "personal_email")
	}
	if !q.Codehost || other.person == nil {
		return newRecord(appendNetworkPerson(nil, owner.network, q.Email, nil, nil), groups, owner, nil), nil
	}
	body := appendNetworkPerson(nil, owner.network, q.Email, other.person.codehost, other.by)
	return newRecord(body, groups, owner, other.person), nil
}

// answer renders a record of the codehost webset (MAPPING.md, section 7), or "{}" if there is none or it does not meet
// MustHave.
func (q CodehostQuery) answer(ctx context.Context, w *session) (Record, error) {
	miss := Record{Body: []byte(empty)}
	owner, err := w.codehostHolder(ctx, q)
	if err != nil || owner == nil {
		return miss, err
	}
	row := owner.codehost
	met := q.MustHave == MustHave{} || row.FieldMask()&q.MustHave.Mask != 0 ||
		q.MustHave.Repos && row.Repos > 0 || q.MustHave.Commits && row.Commits > 0
	var other linked
	if met || q.MustHave.Link {
		if other, err = w.follow(ctx, owner); err != nil {
			return miss, err
		}
		met = met || other.person != nil
	}
	if !met {
		miss.Unmet = true
		return miss, nil
	}
	groups := []string{identity.Codehost}
	if q.Network {
		groups = append(groups, readmodel.FieldNetwork)
	}
	body := appendCodehostPerson(nil, row, other.network(), q.Network, other.by)
	return newRecord(body, groups, owner, other.person), nil
}

// readHolders reads the records that may have a username, and with links also the targets of its links.
func (s *session) readHolders(ctx context.Context, p platform, username string, links bool) error {
	keys := []lookupKey{{p.username, username}}
	if links {
		return s.readAccounts(ctx, keys, account{platform: p, username: username})
	}
	return s.readAccounts(ctx, keys)
}

// codehostHolder returns the account with the user ID, or else the owner of the username.
func (s *session) codehostHolder(ctx context.Context, q CodehostQuery) (*person, error) {
	if q.HasID {
		t := target{codehostPlatform().name, strconv.FormatInt(q.UserID, 10)}
		if err := s.read(ctx, []target{t}); err != nil {
			return nil, err
		}
		if p := s.people[t.key()]; p != nil {
			return p, nil
		}
	}
	if err := s.readHolders(ctx, codehostPlatform(), q.Username, true); err != nil {
		return nil, err
	}
	return s.holder(ctx, codehostPlatform(), q.Username)
}
