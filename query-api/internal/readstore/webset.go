package readstore

import (
	"context"
	"slices"
	"strconv"

	"muster/schemas/identity"
	"muster/schemas/readmodel"
)

// NetworkQuery asks for a record of the network webset.
type NetworkQuery struct {
	Username string // identity.UsernameKey
	Codehost bool   // add-on codehost
	Email    bool   // add-on personal_email
	MustHave MustHave
}

// CodehostQuery asks for a record of the codehost webset.
type CodehostQuery struct {
	UserID   int64  // tried first, when HasID
	HasID    bool   //
	Username string // identity.UsernameKey
	Network  bool   // add-on network
	MustHave MustHave
}

// MustHave is a condition on a record: one of the fields must be present. The
// zero value is no condition.
type MustHave struct {
	// Mask has the bits of stored fields (readmodel.NetworkFieldMask or
	// readmodel.CodehostFieldMask).
	Mask uint64
	// Link: a followed link leads to a record of the other webset.
	Link bool
	// Repos and Commits: there is a visible one. Codehost webset only.
	Repos   bool
	Commits bool
}

// Record is an answer that is one record, and whose data is in it.
type Record struct {
	Body []byte // a JSON object
	// Identities of the records that it was made from, as "<kind> <identity>".
	Identities []string
	// Identifiers are what those go by (metering.Used).
	Identifiers []string
}

func newRecord(body []byte, from ...*person) Record {
	return Record{Body: body, Identities: identities(from...), Identifiers: identifiers(from...)}
}

// identities names the records that are not nil.
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

// identifiers are what the records that are not nil go by.
func identifiers(people ...*person) []string {
	var out []string
	for _, p := range people {
		switch {
		case p == nil:
		case p.network != nil:
			out = appendIdentifiers(out, identity.Network, p.network.ProfileID, p.network.UsernameKey, p.network.EmailKeys)
		default:
			out = appendIdentifiers(out, identity.Codehost, strconv.FormatInt(p.codehost.UserID, 10), p.codehost.UsernameKey,
				slices.Concat(p.codehost.EmailKeys, p.codehost.DerivedEmailKeys()))
		}
	}
	return out
}

// appendIdentifiers writes what [Store.ErasedIdentifier] reads.
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

// empty appends the record of a miss.
const empty = "{}"

// NetworkPerson renders a record of the network webset (MAPPING.md, section
// 6), or "{}" when there is none or it does not meet MustHave.
func (s *Store) NetworkPerson(ctx context.Context, q NetworkQuery) (Record, error) {
	miss := Record{Body: []byte(empty)}
	w := s.session()
	if err := w.readHolders(ctx, networkPlatform(), q.Username, q.Codehost); err != nil {
		return miss, err
	}
	who, err := w.holder(ctx, networkPlatform(), q.Username)
	if err != nil || who == nil {
		return miss, err
	}
	met := q.MustHave == MustHave{} || who.network.Present&q.MustHave.Mask != 0
	var other linked
	if met && q.Codehost || !met && q.MustHave.Link {
		if other, err = w.follow(ctx, who); err != nil {
			return miss, err
		}
		met = met || other.person != nil
	}
	if !met {
		return miss, nil
	}
	if !q.Codehost || other.person == nil {
		return newRecord(appendNetworkPerson(nil, who.network, q.Email, nil, nil), who, nil), nil
	}
	return newRecord(appendNetworkPerson(nil, who.network, q.Email, other.person.codehost, other.by), who, other.person), nil
}

// CodehostPerson renders a record of the codehost webset (MAPPING.md, section
// 7), or "{}" when there is none or it does not meet MustHave.
func (s *Store) CodehostPerson(ctx context.Context, q CodehostQuery) (Record, error) {
	miss := Record{Body: []byte(empty)}
	w := s.session()
	who, err := w.codehostHolder(ctx, q)
	if err != nil || who == nil {
		return miss, err
	}
	row := who.codehost
	met := q.MustHave == MustHave{} || row.FieldMask()&q.MustHave.Mask != 0 ||
		q.MustHave.Repos && row.Repos > 0 || q.MustHave.Commits && row.Commits > 0
	var other linked
	if met || q.MustHave.Link {
		if other, err = w.follow(ctx, who); err != nil {
			return miss, err
		}
		met = met || other.person != nil
	}
	if !met {
		return miss, nil
	}
	return newRecord(appendCodehostPerson(nil, row, other.network(), q.Network, other.by), who, other.person), nil
}

// readHolders reads the records that may have a username, and if links is set, what its links lead to.
func (s *session) readHolders(ctx context.Context, p platform, username string, links bool) error {
	keys := []lookupKey{{p.username, username}}
	if links {
		return s.readAccounts(ctx, keys, account{platform: p, username: username})
	}
	return s.readAccounts(ctx, keys)
}

// codehostHolder is the account with the user id, else the holder of the
// username.
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
