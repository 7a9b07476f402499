package readstore

import (
	"context"

	"muster/schemas/identity"
)

// PersonQuery is a query of person enrichment. Identifiers are comparison forms (identity.NormalizeUsername,
// identity.NormalizeEmail), empty if not given.
type PersonQuery struct {
	CodehostUsername string
	NetworkUsername  string
	Email            string
	// NoReplyUserID and NoReplyUsername are the account that Email names, if it is a no-reply address of the code
	// host; the id is 0 if it is not in the address.
	NoReplyUserID   int64
	NoReplyUsername string
	Codehost        bool // the codehost webset is requested
	Network         bool // the network webset is requested
}

// answer finds a person (rulings.md, Person enrichment) and renders person.codehost and person.network (MAPPING.md,
// section 3).
func (q PersonQuery) answer(ctx context.Context, w *session) (Record, error) {
	w.noReply = w.store.noReplyOf(q)
	codehost, network, err := w.resolve(ctx, q)
	if err != nil {
		return Record{}, err
	}
	out := Record{Body: []byte{'{'}, Identifiers: identifiers(network.person, codehost.person)}
	if codehost.person != nil {
		row := codehost.person.codehost
		other, err := w.follow(ctx, codehost.person)
		if err != nil {
			return Record{}, err
		}
		by := codehost.by
		if other.person != nil {
			out.Identifiers = append(out.Identifiers, identifiers(other.person)...)
			if by == nil && other.by != nil && row.NetworkUsername == "" {
				by = &discoveredLink{identity.Network, other.person.network.Username, other.by.confidence}
			}
		}
		out.Body = appendEnrichedCodehost(append(out.Body, `"codehost":`...), row, other.network(), by)
		out.Groups = append(out.Groups, identity.Codehost)
	}
	if network.person != nil {
		if codehost.person != nil {
			out.Body = append(out.Body, ',')
		}
		out.Body = appendEnrichedNetwork(append(out.Body, `"network":`...), network.person.network, network.by)
		out.Groups = append(out.Groups, identity.Network)
	}
	out.Body = append(out.Body, '}')
	out.Identities = identities(network.person, codehost.person)
	return out, nil
}
