package v1

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/platform/suggest"
	"muster/query-api/internal/api"
	"muster/query-api/internal/metering"
	"muster/query-api/internal/readstore"
	"muster/schemas/identity"
	"muster/schemas/jsonname"
	"muster/schemas/readmodel"
)

// maxIdentifiers is the maximum number of identifiers in a POST (rulings.md, Websets).
const maxIdentifiers = 100

// Names of the add-ons. An add-on has the name of the field that it fills.
const (
	addonCodehost = "codehost"
	addonNetwork  = "network"
	addonEmail    = "personal_email"
)

// webset describes one of the two person websets: its identifier parameter, its options, and its lookup.
type webset struct {
	name   string // of the webset and of its identifier parameter
	addons []string
	fields []string // that must_have accepts
	record *fieldTree
	// link is the must_have field that requires the account link.
	link string
	mask func(name string) (uint64, bool)
	// needs maps a field to the add-on without which the record does not have it.
	needs map[string]string
	// query returns the query of an identifier.
	query func(id string, addons map[string]bool, must readstore.MustHave) (readstore.Query, error)
}

func (s *Server) networkWebset() webset {
	return webset{
		name: identity.Network, addons: []string{addonCodehost, addonEmail}, fields: readmodel.NetworkFields(),
		record: s.fields.network,
		link:   readmodel.FieldCodehost, mask: readmodel.NetworkFieldMask,
		needs: map[string]string{"personal_email": addonEmail, "emails": addonEmail, "emails_count": addonEmail},
		query: func(id string, addons map[string]bool, must readstore.MustHave) (readstore.Query, error) {
			username, err := s.person(identity.Network, identity.Network, id)
			return readstore.NetworkQuery{
				Username: username, Codehost: addons[addonCodehost], Email: addons[addonEmail], MustHave: must,
			}, err
		},
	}
}

func (s *Server) codehostWebset() webset {
	return webset{
		name: identity.Codehost, addons: []string{addonNetwork}, fields: readmodel.CodehostFields(),
		record: s.fields.codehost,
		link:   readmodel.FieldNetwork, mask: readmodel.CodehostFieldMask,
		query: func(id string, addons map[string]bool, must readstore.MustHave) (readstore.Query, error) {
			username, err := s.person(identity.Codehost, identity.Codehost, id)
			q := readstore.CodehostQuery{Username: username, Network: addons[addonNetwork], MustHave: must}
			q.UserID, q.HasID = numericID(id)
			return q, err
		},
	}
}

// numericID parses a user ID: digits without leading zeros.
func numericID(text string) (int64, bool) {
	text = strings.TrimSpace(text)
	id, err := strconv.ParseInt(text, 10, 64)
	return id, err == nil && strconv.FormatInt(id, 10) == text && id >= 0
}

// GetNetworkPerson is GET /v1/webset/network/person.
func (s *Server) GetNetworkPerson(
	ctx context.Context, request api.GetNetworkPersonRequestObject,
) (api.GetNetworkPersonResponseObject, error) {
	p := request.Params
	return s.respondOne(
		ctx,
		s.networkWebset(),
		p.Network,
		options{texts(p.Addons), texts(p.MustHave), texts(p.Fields), p.MaxCredits, isTrue(p.DryRun)},
	)
}

// PostNetworkPerson is POST /v1/webset/network/person.
func (s *Server) PostNetworkPerson(
	ctx context.Context, request api.PostNetworkPersonRequestObject,
) (api.PostNetworkPersonResponseObject, error) {
	b := request.Body
	return s.respondMany(
		ctx,
		s.networkWebset(),
		b.Network,
		options{texts(b.Addons), texts(b.MustHave), texts(b.Fields), b.MaxCredits, isTrue(b.DryRun)},
	)
}

// GetCodehostPerson is GET /v1/webset/codehost/person.
func (s *Server) GetCodehostPerson(
	ctx context.Context, request api.GetCodehostPersonRequestObject,
) (api.GetCodehostPersonResponseObject, error) {
	p := request.Params
	return s.respondOne(
		ctx,
		s.codehostWebset(),
		p.Codehost,
		options{texts(p.Addons), texts(p.MustHave), texts(p.Fields), p.MaxCredits, isTrue(p.DryRun)},
	)
}

// PostCodehostPerson is POST /v1/webset/codehost/person.
func (s *Server) PostCodehostPerson(
	ctx context.Context, request api.PostCodehostPersonRequestObject,
) (api.PostCodehostPersonResponseObject, error) {
	b := request.Body
	return s.respondMany(
		ctx,
		s.codehostWebset(),
		b.Codehost,
		options{texts(b.Addons), texts(b.MustHave), texts(b.Fields), b.MaxCredits, isTrue(b.DryRun)},
	)
}

// VisitGetNetworkPersonResponse implements api.GetNetworkPersonResponseObject.
func (a answer) VisitGetNetworkPersonResponse(w http.ResponseWriter) error { return a.write(w) }

// VisitPostNetworkPersonResponse implements api.PostNetworkPersonResponseObject.
func (a answer) VisitPostNetworkPersonResponse(w http.ResponseWriter) error { return a.write(w) }

// VisitGetCodehostPersonResponse implements api.GetCodehostPersonResponseObject.
func (a answer) VisitGetCodehostPersonResponse(w http.ResponseWriter) error { return a.write(w) }

// VisitPostCodehostPersonResponse implements api.PostCodehostPersonResponseObject.
func (a answer) VisitPostCodehostPersonResponse(w http.ResponseWriter) error { return a.write(w) }

// VisitPostNetworkPersonResponse implements api.PostNetworkPersonResponseObject.
func (l list) VisitPostNetworkPersonResponse(w http.ResponseWriter) error { return l.write(w) }

// VisitPostCodehostPersonResponse implements api.PostCodehostPersonResponseObject.
func (l list) VisitPostCodehostPersonResponse(w http.ResponseWriter) error { return l.write(w) }

// records is the response of either webset to a POST.
type records interface {
	api.PostNetworkPersonResponseObject
	api.PostCodehostPersonResponseObject
}

// texts returns the values of an optional list, without surrounding white space.
func texts[T ~string](list *[]T) []string {
	if list == nil {
		return nil
	}
	out := make([]string, len(*list))
	for i, v := range *list {
		out[i] = strings.TrimSpace(string(v))
	}
	return out
}

// respondOne responds to one identifier with one record.
func (s *Server) respondOne(ctx context.Context, w webset, id string, o options) (answer, error) {
	chosen, must, err := w.check(o)
	if err != nil {
		return nil, err
	}
	fields, err := w.selected(o.fields, chosen)
	if err != nil {
		return nil, err
	}
	query, err := w.query(id, chosen, must)
	if err != nil {
		return nil, err
	}
	if err := checkMaxCredits(ctx, 1, o.maxCredits, ""); err != nil {
		return nil, err
	}
	if o.dryRun {
		return estimate(ctx, 1)
	}
	records, err := s.readAndCharge(ctx, []readstore.Query{query}, []int{0}, fields)
	if err != nil {
		return nil, err
	}
	switch r := records[0]; {
	case r.Unmet:
		exchangeOf(ctx).missReason = "must_have: " + strings.Join(o.mustHave, ", ")
	case !r.Found():
		exchangeOf(ctx).missReason = reasonNotFound
	}
	return answer(records[0].Body), nil
}

// readAndCharge reads records and charges those that are not empty. The result has, for each element of indexes, the
// record of the query with that index.
func (s *Server) readAndCharge(
	ctx context.Context, queries []readstore.Query, indexes []int, fields fieldSet,
) ([]readstore.Record, error) {
	res, err := metering.FromContext(ctx).Reserve(ctx, int64(len(indexes)))
	if err != nil {
		return nil, err
	}
	defer res.Release()
	x := exchangeOf(ctx)
	found, err := s.store.Records(ctx, queries, func(r *readstore.Record) error {
		return cmp.Or(fields.shape(r), x.take(len(r.Body)))
	})
	if err != nil {
		return nil, err
	}
	records, size := make([]readstore.Record, len(indexes)), 0
	for i, index := range indexes {
		records[i] = found[index]
		size += len(records[i].Body)
	}
	if metering.FromContext(ctx).Storable() { // a second copy is stored
		if err := x.take(size); err != nil {
			return nil, err
		}
	}
	_, err = res.Commit(ctx, usedOf(records))
	return records, err
}

// respondMany responds to one identifier with one record, and to a list with a list.
func (s *Server) respondMany(ctx context.Context, w webset, ids api.Identifiers, o options) (records, error) {
	names, isList, err := identifiers(w.name, ids)
	if err != nil {
		return nil, err
	}
	if !isList {
		return s.respondOne(ctx, w, names[0], o)
	}
	chosen, must, err := w.check(o)
	if err != nil {
		return nil, err
	}
	fields, err := w.selected(o.fields, chosen)
	if err != nil {
		return nil, err
	}
	queries, indexes, first := make([]readstore.Query, 0, len(names)), make([]int, len(names)), make(map[string]int)
	for i, id := range names {
		if index, ok := first[id]; ok {
			indexes[i] = index
			continue
		}
		query, err := w.query(id, chosen, must)
		if err != nil {
			if bad, ok := errors.AsType[*invalid](err); ok {
				return nil, invalidf("%s[%d]%s", w.name, i, strings.TrimPrefix(bad.detail, w.name))
			}
			return nil, err
		}
		first[id], indexes[i] = len(queries), len(queries)
		queries = append(queries, query)
	}
	if err := checkMaxCredits(ctx, int64(len(names)), o.maxCredits, ", or send fewer identifiers"); err != nil {
		return nil, err
	}
	if o.dryRun {
		return estimate(ctx, int64(len(names)))
	}
	all, err := s.readAndCharge(ctx, queries, indexes, fields)
	if err != nil {
		return nil, err
	}
	out := list{exchange: exchangeOf(ctx), head: []byte{'['}, tail: []byte{']'}}
	for _, r := range all {
		out.items, out.free = append(out.items, r.Body), append(out.free, !r.Found())
	}
	return out, nil
}

// identifiers parses one identifier or a list of them.
func identifiers(name string, ids api.Identifiers) (list []string, isList bool, err error) {
	raw, err := ids.MarshalJSON()
	if err != nil {
		return nil, false, fmt.Errorf("read identifiers: %w", err)
	}
	value := jsontext.Value(raw)
	switch kind := value.Kind(); kind {
	case '"':
		var one string
		if err := json.Unmarshal(value, &one); err != nil {
			return nil, false, fmt.Errorf("read identifier: %w", err)
		}
		return []string{one}, false, nil
	case '[':
		var all []jsontext.Value
		if err := json.Unmarshal(value, &all); err != nil {
			return nil, false, fmt.Errorf("read identifiers: %w", err)
		}
		if len(all) == 0 {
			return nil, false, invalidf("%s is an empty list: give 1 to %d identifiers", name, maxIdentifiers)
		}
		if len(all) > maxIdentifiers {
			return nil, false, invalidf("%s has %d identifiers: at most %d are answered in one call", name, len(all),
				maxIdentifiers)
		}
		list = make([]string, len(all))
		for i, v := range all {
			if v.Kind() != '"' {
				return nil, false, invalidf("%s[%d] must be a string, not %s%s",
					name, i, jsonname.OfKind(v.Kind()), numberHint(name, v.Kind()))
			}
			if err := json.Unmarshal(v, &list[i]); err != nil {
				return nil, false, fmt.Errorf("read identifier: %w", err)
			}
		}
		return list, true, nil
	case 0, 'n':
		return nil, false, invalidf("%s is missing: give one identifier, or a list of 1 to %d", name, maxIdentifiers)
	default:
		return nil, false, invalidf("%s must be a string or a list of strings, not %s%s",
			name, jsonname.OfKind(kind), numberHint(name, kind))
	}
}

func numberHint(name string, kind jsontext.Kind) string {
	if name == identity.Codehost && kind == '0' {
		return ": write a numeric user id in quotes"
	}
	return ""
}

// options are the options of a call.
type options struct {
	addons, mustHave []string
	fields           []string // nil: all
	maxCredits       *int64   // nil: no limit
	dryRun           bool
}

// check validates add-ons and must_have.
func (w webset) check(o options) (map[string]bool, readstore.MustHave, error) {
	var must readstore.MustHave
	chosen := make(map[string]bool, len(o.addons))
	for i, a := range o.addons {
		if !slices.Contains(w.addons, a) {
			return nil, must, unknownValue("addons", i, a, w.addons)
		}
		chosen[a] = true
	}
	for i, f := range o.mustHave {
		if !slices.Contains(w.fields, f) {
			return nil, must, unknownValue("must_have", i, f, w.fields)
		}
		if need := w.needs[f]; need != "" && !chosen[need] {
			return nil, must, invalidf("must_have names %s, which needs the add-on of that name: add %s to addons "+
				"(allowed are %s)",
				f, need, strings.Join(w.addons, ", "))
		}
		switch f {
		case w.link:
			must.Link = true
		case readmodel.FieldRepos:
			must.Repos = true
		case readmodel.FieldCommits:
			must.Commits = true
		default:
			bit, _ := w.mask(f)
			must.Mask |= bit
		}
	}
	return chosen, must, nil
}

// selected parses the parameter fields. Fields of an add-on need the add-on.
func (w webset) selected(fields []string, addons map[string]bool) (fieldSet, error) {
	set, err := w.record.parseFields(fields)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		need := w.needs[name]
		if slices.Contains(w.addons, name) {
			need = name
		}
		if need != "" && !addons[need] {
			return nil, invalidf("fields names %s, which needs the add-on %s: add %s to addons", name, need, need)
		}
	}
	return set, err
}

// unknownValue returns the error for an element of a list that is not an allowed value.
func unknownValue(parameter string, i int, value string, allowed []string) *invalid {
	if value == "" {
		return invalidf("%s[%d] is empty: allowed are %s", parameter, i, strings.Join(allowed, ", "))
	}
	return invalidf("%s[%d] is %s, which is not allowed: %s",
		parameter, i, quote(value), suggest.Hint(value, allowed, "Allowed are "+strings.Join(allowed, ", ")))
}
