package v1

import (
	"context"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"

	"muster/query-api/internal/api"
	"muster/query-api/internal/metering"
	"muster/query-api/internal/readstore"
	"muster/schemas/identity"
)

// EnrichPerson is POST /v1/person/enrich.
func (s *Server) EnrichPerson(
	ctx context.Context, request api.EnrichPersonRequestObject,
) (api.EnrichPersonResponseObject, error) {
	b := request.Body
	o := options{maxCredits: b.MaxCredits, dryRun: isTrue(b.DryRun)}
	e, err := s.personEnrichment(texts(b.Fields))
	if err != nil {
		return nil, err
	}
	one := api.PersonEnrichItem{
		Codehost: b.Codehost, NetworkUsername: b.NetworkUsername, Email: b.Email, Websets: b.Websets,
	}
	if b.Items != nil {
		if one != (api.PersonEnrichItem{}) {
			return nil, invalidf("items is given beside an identifier or websets: put them into the items")
		}
		return s.enrichItems(ctx, e, *b.Items, o)
	}
	q, err := s.personQuery(one, e.fields)
	if err != nil {
		return nil, err
	}
	return s.enrichOne(ctx, e, q, nil, o)
}

// EnrichCompany is POST /v1/company/enrich.
func (s *Server) EnrichCompany(
	ctx context.Context, request api.EnrichCompanyRequestObject,
) (api.EnrichCompanyResponseObject, error) {
	b := request.Body
	o := options{maxCredits: b.MaxCredits, dryRun: isTrue(b.DryRun)}
	e, err := s.companyEnrichment(texts(b.Fields))
	if err != nil {
		return nil, err
	}
	one := api.CompanyEnrichItem{
		NetworkSlug: b.NetworkSlug, NetworkId: b.NetworkId, NetworkUrl: b.NetworkUrl, CompanyId: b.CompanyId,
		Website: b.Website, Domain: b.Domain, Email: b.Email, Name: b.Name, Location: b.Location,
	}
	if b.Items != nil {
		if one != (api.CompanyEnrichItem{}) {
			return nil, invalidf("items is given beside an identifier: put it into the items")
		}
		return s.enrichItems(ctx, e, *b.Items, o)
	}
	q, malformed := s.companyQuery(one)
	if q == (readstore.CompanyQuery{}) {
		return nil, malformed
	}
	return s.enrichOne(ctx, e, q, malformed, o)
}

// enrichOne is an enrichment call without items. malformed, if not nil, is the error if nothing matches.
func (s *Server) enrichOne(
	ctx context.Context, e enrichment, q readstore.Query, malformed error, o options,
) (enrichResponse, error) {
	if err := checkMaxCredits(ctx, 1, o.maxCredits, ""); err != nil {
		return nil, err
	}
	if o.dryRun {
		return estimate(ctx, 1)
	}
	res, err := metering.FromContext(ctx).Reserve(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer res.Release()
	r, err := s.store.Record(ctx, q)
	if err != nil {
		return nil, err
	}
	if !r.Found() {
		if malformed != nil {
			return nil, malformed
		}
		exchangeOf(ctx).missReason = missReasonOf(r)
	}
	if err := e.fields.shape(&r); err != nil {
		return nil, err
	}
	if _, err := res.Commit(ctx, usedOf([]readstore.Record{r})); err != nil {
		return nil, err
	}
	b, err := e.appendMembers(append(make([]byte, 0, len(r.Body)+96), '{'), r)
	return answer(append(b, '}')), err
}

// missReasonOf returns why an enrichment has no match.
func missReasonOf(r readstore.Record) string {
	if len(r.Candidates) > 0 {
		return reasonBelowConfidence
	}
	return reasonNotFound
}

// usedOf returns the usage of a call: a unit for each record.
func usedOf(records []readstore.Record) metering.Used {
	var used metering.Used
	for _, r := range records {
		if !r.Found() {
			continue
		}
		used.Units++
		used.Identities = append(used.Identities, r.Identities...)
		used.Identifiers = append(used.Identifiers, r.Identifiers...)
		for _, group := range r.Groups {
			if !slices.Contains(used.Groups, group) {
				used.Groups = append(used.Groups, group)
			}
		}
	}
	return used
}

// VisitEnrichPersonResponse implements api.EnrichPersonResponseObject.
func (a answer) VisitEnrichPersonResponse(w http.ResponseWriter) error { return a.write(w) }

// VisitEnrichCompanyResponse implements api.EnrichCompanyResponseObject.
func (a answer) VisitEnrichCompanyResponse(w http.ResponseWriter) error { return a.write(w) }

// appendPersonMembers implements enrichment.appendMembers.
func appendPersonMembers(b []byte, r readstore.Record) ([]byte, error) {
	b = append(b, `"websets_matched":[`...)
	for i, webset := range r.Groups {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), webset...), '"')
	}
	return append(append(b, `],"person":`...), r.Body...), nil
}

// appendCompanyMembers implements enrichment.appendMembers.
func appendCompanyMembers(b []byte, r readstore.Record) ([]byte, error) {
	if r.Found() {
		return append(append(b, `"matched":true,"company":`...), r.Body...), nil
	}
	b = append(b, `"matched":false,"company":null`...)
	if len(r.Candidates) == 0 {
		return b, nil
	}
	candidates, err := json.Marshal(r.Candidates)
	return append(append(b, `,"candidates":`...), candidates...), err
}

// personQuery validates all identifiers, including those that will not be used, and that the selected fields are of the
// websets.
func (s *Server) personQuery(body api.PersonEnrichItem, fields fieldSet) (q readstore.PersonQuery, err error) {
	if body.Codehost == nil && body.NetworkUsername == nil && body.Email == nil {
		return q, invalidf("no identifier is given: send at least one of codehost, network_username, email")
	}
	if body.Codehost != nil {
		if q.CodehostUsername, err = s.person("codehost", identity.Codehost, *body.Codehost); err != nil {
			return q, err
		}
	}
	if body.NetworkUsername != nil {
		if q.NetworkUsername, err = s.person("network_username", identity.Network, *body.NetworkUsername); err != nil {
			return q, err
		}
	}
	if body.Email != nil {
		if q.Email, err = email("email", *body.Email); err != nil {
			return q, err
		}
		if id, username, ok := s.platforms.NoReply(q.Email); ok {
			q.NoReplyUserID, q.NoReplyUsername = id, identity.NormalizeUsername(username)
		}
	}
	if body.Websets == nil {
		q.Codehost = true
		return q, fields.checkWebsets(q)
	}
	if len(*body.Websets) == 0 {
		return q, invalidf("websets is empty: name codehost, network or both, or omit it for codehost")
	}
	for i, name := range *body.Websets {
		switch name {
		case api.WebsetName(identity.Codehost):
			q.Codehost = true
		case api.WebsetName(identity.Network):
			q.Network = true
		default:
			return q, unknownValue("websets", i, string(name), []string{identity.Codehost, identity.Network})
		}
	}
	return q, fields.checkWebsets(q)
}

// companyQuery reads identifiers in order, up to the first malformed one: the query has those before it, and
// malformed is its error. Identifiers after a match are ignored (interface.md, company enrichment, rule 1), so the
// error counts only if nothing matches.
func (s *Server) companyQuery(body api.CompanyEnrichItem) (q readstore.CompanyQuery, malformed error) {
	identifiers := []struct {
		name  string
		given *string
		parse func(name, input string) (string, error)
		into  *string
	}{
		{"network_slug", body.NetworkSlug, companySlug, &q.Slug},
		{"network_id", body.NetworkId, exactID, &q.NetworkID},
		{"network_url", body.NetworkUrl, s.companyURL, &q.URLSlug},
		{"company_id", body.CompanyId, exactID, &q.CompanyID},
		{"website", body.Website, domain, &q.Website},
		{"domain", body.Domain, domain, &q.Domain},
		{"email", body.Email, emailDomain, &q.Email},
		{"name", body.Name, companyName, &q.Name},
	}
	if body.Location != nil && body.Name == nil {
		return q, invalidf("location is given without name: it says which company of a name is meant")
	}
	given := false
	for _, id := range identifiers {
		if id.given == nil {
			continue
		}
		given = true
		value, err := id.parse(id.name, *id.given)
		if err != nil {
			return q, err
		}
		*id.into = value
	}
	if !given {
		return q, invalidf("no identifier is given: send at least one of network_slug, network_id, network_url, " +
			"company_id, website, domain, email, name")
	}
	if body.Location != nil {
		var err error
		if q.Location, err = shortText("location", *body.Location); err != nil {
			return q, err
		}
	}
	return q, nil
}
