package searchsink

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/platform/opensearch"
	"muster/schemas/searchindex"
)

// Checksum is the number of documents, and a sum over what they were built from that does not depend on their order.
type Checksum struct {
	Documents int64  `json:"documents"`
	Sum       uint64 `json:"sum,string"`
}

func (c *Checksum) add(hash uint64, content int64) {
	c.Documents++
	c.Sum += hash*31 + uint64(content) //nolint:gosec // the bits
}

// indexed is a person in the index.
type indexed struct {
	hash    uint64
	id      string
	content int64
}

// verify compares an index with the table, person by person. Those that differ are compared again until they agree,
// since records arrive meanwhile. It returns the checksum of what was equal at first.
func (f filler) verify(ctx context.Context, index string, progress Progress) (Checksum, error) {
	if err := f.writer.refresh(ctx, index); err != nil {
		return Checksum{}, err
	}
	var sum Checksum
	var suspects []string
	hits := hitScan{indexes: f.writer.indexes, index: index}
	progress.Begin("Comparing "+index, -1)
	defer progress.End()
	var after uint64
	for first := true; ; first = false {
		rows, err := searchindex.Page(ctx, f.conn, f.collection, after, first, hitsAtOnce)
		if err != nil {
			return sum, err
		}
		last := ^uint64(0) // The rest of the index has no rows.
		if len(rows) > 0 {
			last = rows[len(rows)-1].Hash
		}
		found, err := hits.until(ctx, last)
		if err != nil {
			return sum, err
		}
		contents := make(map[string]int64, len(found))
		for _, h := range found {
			contents[h.id] = h.content
		}
		for _, row := range rows {
			if row.Deleted || row.IsErased(f.suppressed) {
				continue // If it has a document, that is left over below.
			}
			content, exists := contents[row.ID]
			delete(contents, row.ID)
			if exists && content == row.Content {
				sum.add(row.Hash, row.Content)
			} else {
				suspects = append(suspects, row.ID)
			}
		}
		for id := range contents {
			suspects = append(suspects, id)
		}
		if len(suspects) > maxSuspects {
			return sum, fmt.Errorf("more than %d documents differ from the table", maxSuspects)
		}
		if len(rows) == 0 {
			break
		}
		after = last
		progress.Set(sum.Documents)
	}
	return sum, f.settle(ctx, index, suspects)
}

// settle waits until the documents of people agree with their rows.
func (f filler) settle(ctx context.Context, index string, suspects []string) error {
	for end := time.Now().Add(verifyFor); len(suspects) > 0; {
		if time.Now().After(end) {
			return fmt.Errorf("%d documents differ from the table: run the command again, and report a bug if the error "+
				"persists", len(suspects))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(opensearch.PollInterval):
		}
		if err := f.writer.refresh(ctx, index); err != nil {
			return err
		}
		var left []string
		for part := range slices.Chunk(suspects, rowsAtOnce) {
			rows, err := searchindex.ReadRows(ctx, f.conn, f.collection, part)
			if err != nil {
				return err
			}
			contents, err := f.writer.contents(ctx, index, part)
			if err != nil {
				return err
			}
			for _, id := range part {
				row := rows[id]
				content, exists := contents[id]
				expected := row != nil && !row.Deleted && !row.IsErased(f.suppressed)
				if exists != expected || expected && content != row.Content {
					left = append(left, id)
				}
			}
		}
		suspects = left
	}
	return nil
}

// hitResponse is a response of a search that returns people with the content of their rows.
type hitResponse struct {
	Hits struct {
		Hits []struct {
			Sort   []jsontext.Value   `json:"sort"`
			Fields map[string][]int64 `json:"fields"`
		} `json:"hits"`
	} `json:"hits"`
}

func (r *hitResponse) people() ([]indexed, error) {
	out := make([]indexed, len(r.Hits.Hits))
	for i, h := range r.Hits.Hits {
		var sortable int64
		if len(h.Sort) != 2 || len(h.Fields[searchindex.FieldContent]) != 1 ||
			json.Unmarshal(h.Sort[0], &sortable) != nil || json.Unmarshal(h.Sort[1], &out[i].id) != nil {
			return nil, errors.New("a document of the search index has no row")
		}
		out[i].hash, out[i].content = searchindex.HashOf(sortable), h.Fields[searchindex.FieldContent][0]
	}
	return out, nil
}

type object = map[string]any

func (x indexes) people(ctx context.Context, index string, request object) ([]indexed, error) {
	request["sort"] = []object{
		{searchindex.FieldHash: object{"order": "asc"}}, {searchindex.FieldID: object{"order": "asc"}},
	}
	request["docvalue_fields"] = []string{searchindex.FieldContent}
	request["track_total_hits"] = false
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	var res hitResponse
	path := "/" + index + "/_search?allow_partial_search_results=false"
	if err := x.client.Do(ctx, http.MethodPost, path, body, &res); err != nil {
		return nil, fmt.Errorf("read search index: %w", err)
	}
	return res.people()
}

// contents returns the contents of the documents of people.
func (x indexes) contents(ctx context.Context, index string, ids []string) (map[string]int64, error) {
	found, err := x.people(ctx, index, object{
		"size": len(ids), "query": object{"terms": object{searchindex.FieldID: ids}},
	})
	if err != nil {
		return nil, err
	}
	out := make(map[string]int64, len(found))
	for _, p := range found {
		out[p.id] = p.content
	}
	return out, nil
}

// hitScan reads all people of an index in the order of the table.
type hitScan struct {
	indexes
	index string
	read  []indexed // not returned yet
	after []any
	ended bool
}

// until returns the people up to a hash, who follow those returned before.
func (s *hitScan) until(ctx context.Context, hash uint64) ([]indexed, error) {
	for !s.ended && (len(s.read) == 0 || s.read[len(s.read)-1].hash <= hash) {
		request := object{"size": hitsAtOnce}
		if s.after != nil {
			request["search_after"] = s.after
		}
		found, err := s.people(ctx, s.index, request)
		if err != nil {
			return nil, err
		}
		if s.ended = len(found) < hitsAtOnce; len(found) > 0 {
			last := found[len(found)-1]
			s.after = []any{searchindex.SortableHash(last.hash), last.id}
		}
		s.read = append(s.read, found...)
	}
	n := 0
	for n < len(s.read) && s.read[n].hash <= hash {
		n++
	}
	out := s.read[:n:n]
	s.read = slices.Clone(s.read[n:])
	return out, nil
}
