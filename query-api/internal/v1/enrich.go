package v1

import (
	"context"
	"net/http"

	"muster/query-api/internal/api"
	"muster/query-api/internal/metering"
	"muster/query-api/internal/readstore"
	"muster/schemas/identity"
)

// EnrichPerson is POST /v1/person/enrich.
func (s *Server) EnrichPerson(
	ctx context.Context, request api.EnrichPersonRequestObject,
) (api.EnrichPersonResponseObject, error) {
	q, err := s.personQuery(request.Body)
	if err != nil {
		return nil, err
	}
	if err := checkMaxCredits(ctx, 1, request.Body.MaxCredits, ""); err != nil {
		return nil, err
	}
	if isTrue(request.Body.DryRun) {
		return estimate(ctx, 1)
	}
	res, err := metering.FromContext(ctx).Reserve(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer res.Release()
	p, err := s.store.Person(ctx, q)
	if err != nil {
		return nil, err
	}
	used := metering.Used{Identities: p.Identities, Identifiers: p.Identifiers}
	if p.Codehost != nil {
		used.Units, used.Groups = 1, append(used.Groups, identity.Codehost)
	}
	if p.Network != nil {
		used.Units, used.Groups = 1, append(used.Groups, identity.Network)
	}
	if used.Units == 0 {
		exchangeOf(ctx).missReason = reasonNotFound
	}
	if _, err := res.Commit(ctx, used); err != nil {
		return nil, err
	}
	b := make([]byte, 0, len(p.Codehost)+len(p.Network)+96)
	b = append(b, `{"websets_matched":[`...)
	if p.Codehost != nil {
		b = append(b, `"codehost"`...)
	}
	if p.Codehost != nil && p.Network != nil {
		b = append(b, ',')
	}
	if p.Network != nil {
		b = append(b, `"network"`...)
	}
	b = append(b, `],"person":{`...)
	if p.Codehost != nil {
		b = append(append(b, `"codehost":`...), p.Codehost...)
	}
	if p.Codehost != nil && p.Network != nil {
		b = append(b, ',')
	}
	if p.Network != nil {
		b = append(append(b, `"network":`...), p.Network...)
	}
	return answer(append(b, `}}`...)), nil
}

// VisitEnrichPersonResponse implements api.EnrichPersonResponseObject.
func (a answer) VisitEnrichPersonResponse(w http.ResponseWriter) error { return a.write(w) }

// personQuery validates all identifiers, including those that will not be used.
func (s *Server) personQuery(body *api.PersonEnrichRequest) (q readstore.PersonQuery, err error) {
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
		return q, nil
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
	return q, nil
}

// EnrichCompany is POST /v1/company/enrich.
func (s *Server) EnrichCompany(
	ctx context.Context, request api.EnrichCompanyRequestObject,
) (api.EnrichCompanyResponseObject, error) {
	q, malformed := s.companyQuery(request.Body)
	if q == (readstore.CompanyQuery{}) {
		return nil, malformed
	}
	if err := checkMaxCredits(ctx, 1, request.Body.MaxCredits, ""); err != nil {
		return nil, err
	}
	if isTrue(request.Body.DryRun) {
		return estimate(ctx, 1)
	}
	res, err := metering.FromContext(ctx).Reserve(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer res.Release()
	company, err := s.store.Company(ctx, q)
	if err != nil {
		return nil, err
	}
	if company.Body == nil && malformed != nil {
		return nil, malformed
	}
	var used metering.Used
	if company.Body != nil {
		used = metering.Used{Units: 1, Identities: company.Identities, Groups: []string{"company"}}
	} else {
		exchangeOf(ctx).missReason = reasonNotFound
	}
	if _, err := res.Commit(ctx, used); err != nil {
		return nil, err
	}
	if company.Body == nil {
		return answer(`{"matched":false,"company":null}`), nil
	}
	b := make([]byte, 0, len(company.Body)+32)
	b = append(b, `{"matched":true,"company":`...)
	return answer(append(append(b, company.Body...), '}')), nil
}

// VisitEnrichCompanyResponse implements api.EnrichCompanyResponseObject.
func (a answer) VisitEnrichCompanyResponse(w http.ResponseWriter) error { return a.write(w) }

// companyQuery reads identifiers in order, up to the first malformed one: the query has those before it, and
// malformed is its error. Identifiers after a match are ignored (interface.md, company enrichment, rule 1), so the
// error counts only if nothing matches.
func (s *Server) companyQuery(body *api.CompanyEnrichRequest) (q readstore.CompanyQuery, malformed error) {
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
			"company_id")
	}
	return q, nil
}
