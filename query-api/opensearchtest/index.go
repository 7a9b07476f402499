package opensearchtest

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/platform/opensearchtest"
)

// Options configures a node.
type Options = opensearchtest.Options

// StatusError is a response with a status other than 2xx.
type StatusError = opensearchtest.StatusError

// Node is a running OpenSearch node.
type Node struct{ *opensearchtest.Node }

// Start starts a node and waits until it responds.
func Start(ctx context.Context, o Options) (*Node, error) {
	n, err := opensearchtest.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	return &Node{n}, nil
}

// Attach uses a node that another process started, by its URL. Close leaves it running.
func Attach(url string) *Node { return &Node{opensearchtest.Attach(url)} }

// mapping is the search document of rulings.md (Search): text with .keyword, arrays of objects nested and included in
// root, nothing else searchable.
//
//go:embed mapping.json
var mapping []byte

// companies is the same of companies, which have no nested arrays.
//
//go:embed companies.json
var companies []byte

// bulkBytes is the maximum size of a bulk request.
const bulkBytes = 4 << 20

// subfields are the subfields with their own analyzers in the mapping.
const subfields = `, "folded": {"type": "text", "analyzer": "folded"}, "code": {"type": "text", "analyzer": "code"}`

// analyzers is the setting of their analyzers, which only a judge has ([opensearchtest.Options]).
const analyzers = `,
   "analysis": {"analyzer": {"folded": {"type": "folded"}, "code": {"type": "code"}}}`

// SubfieldsSuffix ends the name of an index with the subfields .folded and .code. Others lack them: a pattern of field
// names, which means subfields too in OpenSearch, does not mean these.
const SubfieldsSuffix = "-subfields"

// Make creates an empty index and replaces an existing one. The settings are one shard, no replicas and no caches; add
// has additional or different settings by name.
func (n *Node) Make(ctx context.Context, name string, add map[string]any) error {
	return n.makeWith(ctx, name, mapping, add)
}

func (n *Node) makeWith(ctx context.Context, name string, mapping []byte, add map[string]any) error {
	if !strings.HasSuffix(name, SubfieldsSuffix) {
		mapping = bytes.ReplaceAll(mapping, []byte(subfields), nil)
		mapping = bytes.ReplaceAll(mapping, []byte(analyzers), nil)
	}
	if err := n.Do(ctx, http.MethodDelete, "/"+name+"?ignore_unavailable=true", nil, nil); err != nil {
		return fmt.Errorf("remove index: %w", err)
	}
	var body struct {
		Settings struct {
			Index map[string]any `json:"index"`
		} `json:"settings"`
		Mappings jsontext.Value `json:"mappings"`
	}
	if err := json.Unmarshal(mapping, &body); err != nil {
		return fmt.Errorf("create index: %w", err)
	}
	maps.Copy(body.Settings.Index, add)
	raw, err := json.Marshal(body, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("create index: %w", err)
	}
	if err := n.Do(ctx, http.MethodPut, "/"+name, raw, nil); err != nil {
		return fmt.Errorf("create index: %w", err)
	}
	return nil
}

// Index creates an index of people, each a JSON object whose member profile_id becomes its _id, and replaces an
// existing one. All are in one segment, so that deleted documents do not affect statistics.
func (n *Node) Index(ctx context.Context, name string, documents [][]byte) error {
	return n.indexWith(ctx, name, mapping, documents)
}

// IndexCompanies is Index of companies, whose member company_id becomes their _id.
func (n *Node) IndexCompanies(ctx context.Context, name string, documents [][]byte) error {
	return n.indexWith(ctx, name, companies, documents)
}

func (n *Node) indexWith(ctx context.Context, name string, mapping []byte, documents [][]byte) error {
	if err := n.makeWith(ctx, name, mapping, nil); err != nil {
		return err
	}
	if err := n.Add(ctx, name, documents); err != nil {
		return err
	}
	return n.Merge(ctx, name)
}

// Add indexes documents, each a JSON object with the member profile_id or company_id.
func (n *Node) Add(ctx context.Context, name string, documents [][]byte) error {
	var b bytes.Buffer
	flush := func() error {
		if b.Len() == 0 {
			return nil
		}
		var res struct {
			Errors bool           `json:"errors"`
			Items  jsontext.Value `json:"items"`
		}
		if err := n.Do(ctx, http.MethodPost, "/"+name+"/_bulk", b.Bytes(), &res); err != nil {
			return fmt.Errorf("index: %w", err)
		}
		if res.Errors {
			return fmt.Errorf("index: %.600s", res.Items)
		}
		b.Reset()
		return nil
	}
	for _, d := range documents {
		var id struct {
			ProfileID string `json:"profile_id"`
			CompanyID string `json:"company_id"`
		}
		if err := json.Unmarshal(d, &id); err != nil {
			return fmt.Errorf("index: %w", err)
		}
		fmt.Fprintf(&b, "{\"index\":{\"_id\":%s}}\n%s\n", strconv.Quote(cmp.Or(id.ProfileID, id.CompanyID)), d)
		if b.Len() > bulkBytes {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// Merge merges all documents into one searchable segment.
func (n *Node) Merge(ctx context.Context, name string) error {
	for _, action := range []string{"/_refresh", "/_forcemerge?max_num_segments=1", "/_refresh"} {
		if err := n.Do(ctx, http.MethodPost, "/"+name+action, nil, nil); err != nil {
			return fmt.Errorf("index: %w", err)
		}
	}
	return nil
}

// Hit is a document that matched a query.
type Hit struct {
	ID    string
	Score *float64         // nil if the query does not sort by score
	Sort  []jsontext.Value // values of the query's sort keys
	Inner map[string]Inner // inner_hits by name
	Names []string         // matched_queries
}

// Inner is the matching elements of a nested path.
type Inner struct {
	Total   int
	Offsets []int // positions in the array of the document
	Scores  []*float64
	Sorts   [][]jsontext.Value // values of the sort keys
	Sources []jsontext.Value   // their _source, nil if excluded
}

// Result is a search response.
type Result struct {
	Total        int
	Hits         []Hit
	Aggregations jsontext.Value
}

// Search runs a request body and returns all hits up to its size. The total is exact.
func (n *Node) Search(ctx context.Context, index string, body []byte) (Result, error) {
	type hits struct {
		Total struct {
			Value int `json:"value"`
		} `json:"total"`
		Hits []struct {
			ID     string           `json:"_id"`
			Score  *float64         `json:"_score"`
			Sort   []jsontext.Value `json:"sort"`
			Source jsontext.Value   `json:"_source"`
			Nested struct {
				Offset int `json:"offset"`
			} `json:"_nested"`
			Names []string `json:"matched_queries"`
			Inner map[string]struct {
				Hits jsontext.Value `json:"hits"`
			} `json:"inner_hits"`
		} `json:"hits"`
	}
	var res struct {
		Hits         hits           `json:"hits"`
		Aggregations jsontext.Value `json:"aggregations"`
	}
	if err := n.Do(ctx, http.MethodPost, "/"+index+"/_search?track_total_hits=true&request_cache=false&_source=false",
		body, &res); err != nil {
		return Result{}, err
	}
	out := Result{
		Total: res.Hits.Total.Value, Hits: make([]Hit, 0, len(res.Hits.Hits)), Aggregations: res.Aggregations,
	}
	for _, h := range res.Hits.Hits {
		hit := Hit{ID: h.ID, Score: h.Score, Sort: h.Sort, Names: h.Names}
		for name, raw := range h.Inner {
			var in hits
			if err := json.Unmarshal(raw.Hits, &in); err != nil {
				return Result{}, fmt.Errorf("opensearch: inner hits: %w", err)
			}
			inner := Inner{Total: in.Total.Value}
			for _, e := range in.Hits {
				inner.Offsets = append(inner.Offsets, e.Nested.Offset)
				inner.Scores = append(inner.Scores, e.Score)
				inner.Sorts = append(inner.Sorts, e.Sort)
				inner.Sources = append(inner.Sources, e.Source)
			}
			if hit.Inner == nil {
				hit.Inner = map[string]Inner{}
			}
			hit.Inner[name] = inner
		}
		out.Hits = append(out.Hits, hit)
	}
	return out, nil
}

// Tokens returns the tokens of an analyzed text.
func (n *Node) Tokens(ctx context.Context, index, analyzer string, texts ...string) ([]Token, error) {
	body, err := json.Marshal(map[string]any{"analyzer": analyzer, "text": texts})
	if err != nil {
		return nil, fmt.Errorf("opensearch: %w", err)
	}
	var res struct {
		Tokens []Token `json:"tokens"`
	}
	if index != "" {
		index = "/" + index
	}
	if err := n.Do(ctx, http.MethodPost, index+"/_analyze", body, &res); err != nil {
		return nil, err
	}
	return res.Tokens, nil
}

// Token is a token of an analyzed text.
type Token struct {
	Text     string `json:"token"`
	Position int    `json:"position"`
}
