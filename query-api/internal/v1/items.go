package v1

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/query-api/internal/api"
	"muster/query-api/internal/metering"
	"muster/query-api/internal/readstore"
	"muster/schemas/jsonname"
)

const (
	// maxItems is the maximum number of items of a call (rulings.md, Batches).
	maxItems = 100
	// maxReference is the maximum length of an item's reference, in bytes.
	maxReference = 256
)

// enrichment is what the enrichment endpoints do differently.
type enrichment struct {
	// parse returns the query of an item. An error beside a query counts only if the query has no match.
	parse func(raw jsontext.Value) (readstore.Query, error)
	// appendMembers appends the members of the response to a query.
	appendMembers func(b []byte, r readstore.Record) ([]byte, error)
	// fields are the selected fields of a record.
	fields fieldSet
}

// personEnrichment returns the enrichment of people, with the selected fields; nil selects all.
func (s *Server) personEnrichment(fields []string) (enrichment, error) {
	set, err := s.fields.person.personFields(fields)
	parse := func(raw jsontext.Value) (readstore.Query, error) { return s.parsePersonItem(raw, set) }
	return enrichment{parse: parse, appendMembers: appendPersonMembers, fields: set}, err
}

// companyEnrichment returns the enrichment of companies, with the selected fields; nil selects all.
func (s *Server) companyEnrichment(fields []string) (enrichment, error) {
	set, err := s.fields.company.parseFields(fields)
	return enrichment{parse: s.parseCompanyItem, appendMembers: appendCompanyMembers, fields: set}, err
}

// item is a parsed item of a call.
type item struct {
	reference *string         // nil if it has no valid one
	query     readstore.Query // nil if the item is invalid
	invalid   *invalid        // why; beside a query it counts only if the query has no match
}

// itemAnswer is the response to an item.
type itemAnswer struct {
	body   []byte           // a JSON object
	record readstore.Record // not found if nothing matches, or the item is invalid
}

// parseItems parses the items of a call. An invalid item does not affect the others.
func (e enrichment) parseItems(raw []jsontext.Value) ([]item, error) {
	items := make([]item, len(raw))
	for i, value := range raw {
		reference, err := parseReference(value)
		if err == nil {
			items[i].reference = reference
			items[i].query, err = e.parse(value)
		}
		if err != nil && !errors.As(err, &items[i].invalid) {
			return nil, err
		}
	}
	return items, nil
}

// answerItems answers parsed items in order, all in one go ([readstore.Store.Records]). It does not charge for them.
// take is called with the size of each record; its error ends the call.
func (s *Server) answerItems(
	ctx context.Context, e enrichment, items []item, take func(bytes int) error,
) ([]itemAnswer, error) {
	queries := make([]readstore.Query, 0, len(items))
	for _, it := range items {
		if it.query != nil {
			queries = append(queries, it.query)
		}
	}
	records, err := s.store.Records(ctx, queries, func(r *readstore.Record) error {
		return cmp.Or(e.fields.shape(r), take(len(r.Body)))
	})
	if err != nil {
		return nil, err
	}
	answers := make([]itemAnswer, len(items))
	for i, it := range items {
		a := &answers[i]
		if it.query != nil {
			a.record, records = records[0], records[1:]
		}
		if a.body, err = e.render(it, a.record); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// render returns the response to an item.
func (e enrichment) render(it item, r readstore.Record) ([]byte, error) {
	b := make([]byte, 0, len(r.Body)+128)
	b = append(b, '{')
	var err error
	if it.reference != nil {
		if b, err = jsontext.AppendQuote(append(b, `"reference":`...), *it.reference); err != nil {
			return nil, err
		}
		b = append(b, ',')
	}
	switch {
	case it.invalid != nil && !r.Found():
		b, err = jsontext.AppendQuote(append(b, `"detail":`...), it.invalid.detail)
	default:
		b, err = e.appendMembers(b, r)
		if !r.Found() {
			b = append(b, `,"miss_reason":"`+missReasonOf(r)+`"`...)
		}
	}
	return append(b, '}'), err
}

// enrichItems is an enrichment call with items.
func (s *Server) enrichItems(
	ctx context.Context, e enrichment, raw []jsontext.Value, o options,
) (enrichResponse, error) {
	if len(raw) == 0 || len(raw) > maxItems {
		return nil, invalidf("items has %d elements: give 1 to %d", len(raw), maxItems)
	}
	items, err := e.parseItems(raw)
	if err != nil {
		return nil, err
	}
	valid := int64(0)
	for _, it := range items {
		if it.query != nil {
			valid++
		}
	}
	if err := checkMaxCredits(ctx, valid, o.maxCredits, ", or send fewer items"); err != nil {
		return nil, err
	}
	if o.dryRun {
		return estimate(ctx, valid)
	}
	res, err := metering.FromContext(ctx).Reserve(ctx, valid)
	if err != nil {
		return nil, err
	}
	defer res.Release()
	x := exchangeOf(ctx)
	answers, err := s.answerItems(ctx, e, items, x.take)
	if err != nil {
		return nil, err
	}
	out := list{exchange: x, head: []byte(`{"results":[`), tail: []byte(`]}`)}
	records, size := make([]readstore.Record, len(answers)), 0
	for i, a := range answers {
		records[i], size = a.record, size+len(a.body)
		out.items, out.free = append(out.items, a.body), append(out.free, !a.record.Found())
	}
	if metering.FromContext(ctx).Storable() { // a second copy is stored
		if err := x.take(size); err != nil {
			return nil, err
		}
	}
	if _, err := res.Commit(ctx, usedOf(records)); err != nil {
		return nil, err
	}
	return out, nil
}

// enrichResponse is the response of either enrichment endpoint.
type enrichResponse interface {
	api.EnrichPersonResponseObject
	api.EnrichCompanyResponseObject
}

// VisitEnrichPersonResponse implements api.EnrichPersonResponseObject.
func (l list) VisitEnrichPersonResponse(w http.ResponseWriter) error { return l.write(w) }

// VisitEnrichCompanyResponse implements api.EnrichCompanyResponseObject.
func (l list) VisitEnrichCompanyResponse(w http.ResponseWriter) error { return l.write(w) }

// parseReference returns the reference of an item, also if the rest of the item is invalid.
func parseReference(raw jsontext.Value) (*string, error) {
	var it struct {
		Reference *string `json:"reference"`
	}
	if raw.Kind() != '{' {
		return nil, nil //nolint:nilnil // the item is not an object, which its parser reports
	}
	if err := json.Unmarshal(raw, &it); err != nil {
		if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
			return nil, semanticProblem(semantic, "the item")
		}
		return nil, err
	}
	if it.Reference != nil && len(*it.Reference) > maxReference {
		return nil, invalidf("reference is longer than %d bytes", maxReference)
	}
	return it.Reference, nil
}

// decodeItem decodes an item strictly. The error is an [*invalid].
func decodeItem(raw jsontext.Value, into any) error {
	if raw.Kind() != '{' {
		return invalidf("the item must be an object, not %s", jsonname.OfKind(raw.Kind()))
	}
	err := json.Unmarshal(raw, into, json.RejectUnknownMembers(true))
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		return semanticProblem(semantic, "the item")
	}
	return err
}

// parsePersonItem implements enrichment.parse.
func (s *Server) parsePersonItem(raw jsontext.Value, fields fieldSet) (readstore.Query, error) {
	var it api.PersonEnrichItem
	if err := decodeItem(raw, &it); err != nil {
		return nil, err
	}
	q, err := s.personQuery(it, fields)
	if err != nil {
		return nil, err
	}
	return q, nil
}

// parseCompanyItem implements enrichment.parse.
func (s *Server) parseCompanyItem(raw jsontext.Value) (readstore.Query, error) {
	var it api.CompanyEnrichItem
	if err := decodeItem(raw, &it); err != nil {
		return nil, err
	}
	q, malformed := s.companyQuery(it)
	if q == (readstore.CompanyQuery{}) {
		return nil, malformed
	}
	return q, malformed
}
