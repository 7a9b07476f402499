package v1

import (
	"context"
	"net/http"
	"unicode/utf8"

	"muster/query-api/internal/api"
	"muster/query-api/internal/search/clause"
	"muster/schemas/readmodel"
)

const (
	// maxPrefix is the maximum length of a prefix, in characters: that of a whole value.
	maxPrefix = readmodel.MaxKeyword
	// defaultSuggestions and maxSuggestions bound the number of values.
	defaultSuggestions, maxSuggestions = 10, 50
)

// SuggestValues is GET /v1/suggest.
func (s *Server) SuggestValues(
	ctx context.Context, request api.SuggestValuesRequestObject,
) (api.SuggestValuesResponseObject, error) {
	f, err := clause.Field(request.Params.Field, "field")
	switch {
	case err != nil:
		return nil, err
	case f.Identifies() != "":
		return nil, invalidf("field: the values of %s are not suggested: they are %s", quote(f.Path), f.Identifies())
	case f.Type != readmodel.SearchText:
		return nil, invalidf("field: %s is not text: give a field with whole values, such as experience.title.keyword",
			quote(f.Path))
	case !f.Keyword:
		return nil, invalidf("field: %s is analyzed text: give %s, its whole values", quote(f.Path),
			quote(f.Path+".keyword"))
	}
	prefix, size := "", defaultSuggestions
	if request.Params.Prefix != nil {
		prefix = *request.Params.Prefix
	}
	if n := utf8.RuneCountInString(prefix); n > maxPrefix {
		return nil, invalidf("prefix has %d characters: at most %d are read", n, maxPrefix)
	}
	if n := request.Params.Size; n != nil {
		if *n < 1 || *n > maxSuggestions {
			return nil, invalidf("size is %d: it must be from 1 to %d", *n, maxSuggestions)
		}
		size = *n
	}
	values, err := s.store.Suggest(ctx, f.Path, prefix, size)
	if err != nil {
		return nil, err
	}
	return encoded(struct {
		Values []readmodel.Suggestion `json:"values"`
	}{values})
}

// VisitSuggestValuesResponse implements api.SuggestValuesResponseObject.
func (a answer) VisitSuggestValuesResponse(w http.ResponseWriter) error { return a.write(w) }
