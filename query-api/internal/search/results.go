package search

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"muster/query-api/internal/search/highlight"
)

// appendResults renders the results of a page.
func (s *Search) appendResults(page *Page, r *ranking) error {
	inner, err := s.innerHits(r)
	if err != nil {
		return err
	}
	var marked *highlight.Highlighter
	if len(s.highlights) > 0 {
		marked = highlight.New(s.parsed, s.highlights, "")
	}
	for i, d := range r.documents {
		if d.JSON == nil {
			continue // deleted since it was ranked
		}
		page.IDs, page.Identifiers = append(page.IDs, d.ID), append(page.Identifiers, d.Identifiers...)
		shown, err := sourceFilter{s.source, s.searcher.collection.ID}.apply(d.JSON)
		if err != nil {
			return fmt.Errorf("search: filter document: %w", err)
		}
		shown = shown[: len(shown)-1 : len(shown)-1]
		// Without _source, a result holds only its ID (rulings.md, Search).
		if s.scored() && (!s.source.None || s.request.TrackScores) {
			shown = appendScore(append(shown, `,"_score":`...), r.places[i].Score, true)
		}
		if shown, err = appendHighlight(shown, marked, d.JSON); err != nil {
			return err
		}
		if shown, err = s.appendNames(shown, r, i); err != nil {
			return err
		}
		if inner != nil {
			shown = append(append(shown, ','), inner[i]...)
		}
		page.Results = append(page.Results, append(shown, '}'))
	}
	return nil
}

// appendNames appends the names of the clauses that match a place.
func (s *Search) appendNames(b []byte, r *ranking, place int) (_ []byte, err error) {
	var names []string
	for k, n := range s.named {
		if r.matches[place][k] {
			names = append(names, n.name)
		}
	}
	if len(names) == 0 {
		return b, nil
	}
	b = append(b, `,"matched_queries":[`...)
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = jsontext.AppendQuote(b, name); err != nil {
			return nil, fmt.Errorf("search: names of clauses: %w", err)
		}
	}
	return append(b, ']'), nil
}
