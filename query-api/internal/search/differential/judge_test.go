//go:build opensearch

package differential_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/platform/engine/enginetest"
	"muster/query-api/internal/search/clause"
	"muster/query-api/internal/search/searchtest"
	"muster/query-api/opensearchtest"
	"muster/schemas/analysis"
	"muster/schemas/company"
)

// The expected scores are computed from the formula of rulings.md.
func TestOpenSearch_ScoresAsInRulings(t *testing.T) {
	require.NoError(t, node.Index(t.Context(), "hand", [][]byte{
		[]byte(`{"profile_id":"a","profile":{"headline":"go go engineer"}}`),
		[]byte(`{"profile_id":"b","profile":{"headline":"go"},"experience":[{"title":"lead"},{"title":"lead go"}]}`),
		[]byte(`{"profile_id":"c","profile":{"headline":"rust engineer in big city"},"experience":[{"title":"go"}]}`),
		[]byte(`{"profile_id":"d"}`),
	}))
	bm25 := func(n, df, f, length, average float64) float64 {
		idf := math.Log(1 + (n-df+0.5)/(df+0.5))
		return 2.2 * idf * f / (f + 1.2*(0.25+0.75*length/average))
	}
	for query, want := range map[string]map[string]float64{
		`{"match":{"profile.headline":"go"}}`:               {"a": bm25(3, 2, 2, 3, 3), "b": bm25(3, 2, 1, 1, 3)},
		`{"term":{"profile.headline":"rust"}}`:              {"c": bm25(3, 1, 1, 5, 3)},
		`{"prefix":{"profile.headline":"eng"}}`:             {"a": 1, "c": 1},
		`{"exists":{"field":"profile"}}`:                    {"a": 1, "b": 1, "c": 1},
		`{"bool":{"filter":{"match_all":{}}}}`:              {"a": 0, "b": 0, "c": 0, "d": 0},
		`{"match_phrase":{"experience.title":"lead lead"}}`: {},
		// Nested documents are documents, and so are their roots: five with titles, of 1, 2, 1 and of 3 and 1 words.
		`{"match":{"experience.title":"lead"}}`: {"b": bm25(5, 3, 2, 3, 8.0/5)},
		`{"nested":{"path":"experience","query":{"match":{"experience.title":"lead"}},"score_mode":"sum"}}`: {
			"b": bm25(5, 3, 1, 1, 8.0/5) + bm25(5, 3, 1, 2, 8.0/5),
		},
		// One field of twice the headline's words and once the titles': 5 words on average in 3 documents.
		`{"combined_fields":{"query":"rust","fields":["profile.headline^2"]}}`: {"c": bm25(3, 1, 2, 10, 6)},
	} {
		res, err := node.Search(t.Context(), "hand", []byte(`{"size":100,"query":`+query+`}`))
		require.NoError(t, err, query)
		require.Len(t, res.Hits, len(want), query)
		for _, h := range res.Hits {
			require.InEpsilon(t, want[h.ID]+1, *h.Score+1, 1e-6, "%s %s", query, h.ID)
		}
	}
}

// OpenSearch 2 lacks combined_fields: that of the tests rejects what Elasticsearch 8 rejects, also if the text has no
// words (CombinedFieldsQueryBuilder).
func TestOpenSearch_CombinedFieldsRejectsWhatElasticsearchRejects(t *testing.T) {
	index := "combined" + opensearchtest.SubfieldsSuffix
	require.NoError(t, node.Index(t.Context(), index, [][]byte{[]byte(`{"profile_id":"a"}`)}))
	for fields, want := range map[string]string{
		`"profile.headline.keyword"`:                 "does not support [combined_fields] queries",
		`"profile.headl*"`:                           "does not support [combined_fields] queries",
		`"profile.connections"`:                      "does not support [combined_fields] queries",
		`"profile.headline^0.5"`:                     "requires field boosts to be >= 1.0",
		`"profile.headline","profile.summary.code"`:  "must have the same search analyzer",
		`"profile.headline^1.5","profile.*ast_name"`: "",
	} {
		for _, text := range []string{"go", "!"} {
			query := `{"combined_fields":{"query":"` + text + `","zero_terms_query":"all","fields":[` + fields + `]}}`
			_, err := node.Search(t.Context(), index, []byte(`{"query":`+query+`}`))
			_, ours := clause.Lower([]byte(query), "query", clause.Options{})
			if want == "" {
				require.NoError(t, err, query)
				require.NoError(t, ours, query)
				continue
			}
			require.ErrorContains(t, err, want, query)
			require.ErrorContains(t, ours, "combined_fields", query)
		}
	}
}

func TestAnalyzers_EqualOpenSearch(t *testing.T) {
	// Letters of Unicode 9 and symbols, except Hebrew letters next to quotation marks and letters that are emoji after
	// a joiner, whose boundaries differ.
	alphabet := []rune("aZ1_9.,;:'\"-# " +
		"*@\u0301\u200d\u00ad\ufe0f\ufe0e\u20e3😀👍🏽🏿❤©™★🇺🇸🏴\U000e0067\U000e007f漢々ひーカｶﾞ한글ก็ัລກ\u3000\u202f_‿ßİΣςДжعَ०٣१²Ⅷ〇㊗〰🈀é")
	r := rand.New(rand.NewPCG(seed, 2))
	var texts []string
	for range 4000 {
		var b strings.Builder
		for range 1 + r.IntN(12) {
			b.WriteRune(alphabet[r.IntN(len(alphabet))])
		}
		if r.IntN(20) == 0 {
			b.WriteString(strings.Repeat(string(alphabet[r.IntN(len(alphabet))]), r.IntN(400)))
			b.WriteRune(alphabet[r.IntN(len(alphabet))])
		}
		texts = append(texts, b.String())
	}
	for _, name := range analysis.Names() {
		analyze, err := analysis.Named(name)
		require.NoError(t, err)
		for i := 0; i < len(texts); i += 200 {
			var want, got []opensearchtest.Token
			want, err := node.Tokens(t.Context(), "", name, texts[i:i+200]...)
			require.NoError(t, err)
			base := 0
			for _, s := range texts[i : i+200] {
				last := -1
				for _, tok := range analyze(nil, s) {
					got = append(got, opensearchtest.Token{Text: tok.Text, Position: base + tok.Position})
					last = tok.Position
				}
				base += last + 1 // the gap is a setting of the field
			}
			for k := range want {
				require.Less(t, k, len(got), "%s", name)
				require.Equal(t, want[k].Text, got[k].Text, "%s of %+q", name, texts[i:i+200])
				if name != "stop" { // OpenSearch also counts holes at the end of a value.
					require.Equal(t, want[k], got[k], name)
				}
			}
			require.Len(t, got, len(want))
		}
	}
}

// Texts of one word each, so that the tokens of one do not depend on another.
func TestSubfields_TokensEqualOpenSearch(t *testing.T) {
	index := "hand" + opensearchtest.SubfieldsSuffix
	require.NoError(t, node.Make(t.Context(), index, nil))
	var characters []string
	for r := rune(0x80); r <= 0xffff; r++ {
		// The other blocks have no character that is folded, but some that Lucene's tokenizer does not know yet.
		latin := r < 0x0530 || r >= 0x1d00 && r < 0x1f00 || r >= 0x2000 && r < 0x2c00 || r >= 0x2c60 && r < 0x2c80 ||
			r >= 0xa720 && r < 0xa7b0 || r >= 0xfb00 && r < 0xfb10 || r >= 0xff00
		if latin && (unicode.IsLetter(r) || unicode.IsNumber(r)) {
			characters = append(characters, "x"+string(r)+"x")
		}
	}
	signs := []rune("aB9 +#.-_/&'\"()[]{}<>,;:!?é\u00a0\u2003\u3000\u001f\u2028 İΣß")
	r := rand.New(rand.NewPCG(seed, 3))
	var words []string
	for range 4000 {
		var b strings.Builder
		for range 1 + r.IntN(10) {
			b.WriteRune(signs[r.IntN(len(signs))])
		}
		words = append(words, b.String())
	}
	for name, c := range map[string]struct {
		analyze analysis.Analyzer
		texts   []string
	}{
		"folded": {analysis.Folded, characters},
		"code":   {analysis.Code, append(words, "C++ c# .NET; (node.js), F#?", strings.Repeat("long", 200))},
	} {
		for texts := range slices.Chunk(c.texts, 500) {
			want, err := node.Tokens(t.Context(), index, name, texts...)
			require.NoError(t, err)
			var got []opensearchtest.Token
			base := 0
			for _, s := range texts {
				tokens := c.analyze(nil, s)
				for _, tok := range tokens {
					got = append(got, opensearchtest.Token{Text: tok.Text, Position: base + tok.Position})
				}
				base += analysis.Gap + len(tokens)
			}
			for i := range want {
				require.Less(t, i, len(got), name)
				require.Equal(t, want[i], got[i], name)
			}
			require.Len(t, got, len(want), name)
		}
	}
}

func asStatus(err error, target **opensearchtest.StatusError) bool { return errors.As(err, target) }

func cause(err error) string {
	var e *opensearchtest.StatusError
	if !asStatus(err, &e) {
		return err.Error()
	}
	var b struct {
		Error struct {
			RootCause []struct {
				Type   string `json:"type"`
				Reason string `json:"reason"`
			} `json:"root_cause"`
		} `json:"error"`
	}
	if json.Unmarshal([]byte(e.Body), &b) == nil && len(b.Error.RootCause) > 0 {
		return fmt.Sprintf("%s: %.60s", b.Error.RootCause[0].Type, b.Error.RootCause[0].Reason)
	}
	return e.Error()
}

// fillBoth inserts the people into the read models and into OpenSearch, and returns the DSN of the read models.
func fillBoth(t *testing.T) string {
	t.Helper()
	if dsn := os.Getenv(storeEnv); dsn != "" {
		return dsn
	}
	dsn := enginetest.DSN(t)
	conn := open(t, dsn)
	fill(t, conn, people)
	index(t, "people", documents(t, conn))
	index(t, "people"+opensearchtest.SubfieldsSuffix, documents(t, conn))
	var companies [][]byte
	for _, d := range companyDocuments(t, conn) {
		companies = append(companies, d.JSON)
	}
	require.NoError(t, node.IndexCompanies(t.Context(), "companies", companies))
	return dsn
}

func index(t *testing.T, name string, docs []searchtest.Document) {
	t.Helper()
	var raw [][]byte
	for _, d := range docs {
		raw = append(raw, d.JSON)
	}
	require.NoError(t, node.Index(t.Context(), name, raw))
}

// companyDocuments returns the companies of the store as the API returns them, with profile.domain.
func companyDocuments(t *testing.T, conn driver.Conn) []searchtest.Document {
	t.Helper()
	rows, err := conn.Query(t.Context(),
		"SELECT company FROM network_companies FINAL WHERE NOT deleted ORDER BY company_id")
	require.NoError(t, err)
	defer rows.Close() // read completely
	var out []searchtest.Document
	for rows.Next() {
		var fragment string
		require.NoError(t, rows.Scan(&fragment))
		var members map[string]any
		require.NoError(t, json.Unmarshal([]byte("{"+fragment+"}"), &members))
		if profile, ok := members["profile"].(map[string]any); ok {
			website, _ := profile["website"].(string)
			if domain, _ := company.WebsiteDomain(website); domain != "" {
				profile["domain"] = domain
			}
		}
		raw, err := json.Marshal(members, json.Deterministic(true))
		require.NoError(t, err)
		d, err := searchtest.ParseDocument(raw)
		require.NoError(t, err)
		out = append(out, d)
	}
	require.NoError(t, rows.Err())
	return out
}

// rejectedByScore reports whether OpenSearch rejects a query only if it computes scores, which the requested order does
// not need.
func rejectedByScore(ctx context.Context, index string, body map[string]any) bool {
	if body["sort"] == nil {
		return false
	}
	_, err := ask(ctx, index, map[string]any{"query": body["query"]}, 1)
	var e *opensearchtest.StatusError
	return asStatus(err, &e)
}

// ask sends a request to OpenSearch.
func ask(ctx context.Context, index string, body map[string]any, size int) (searchtest.Result, error) {
	m := map[string]any{"size": size}
	for k, v := range body {
		m[k] = v
	}
	raw, err := json.Marshal(m, json.Deterministic(true))
	if err != nil {
		return searchtest.Result{}, err
	}
	if searchtest.NamesSubfields(raw) {
		index += opensearchtest.SubfieldsSuffix
	}
	res, err := node.Search(ctx, index, raw)
	if err != nil {
		return searchtest.Result{}, err
	}
	out := searchtest.Result{Total: res.Total, Aggregations: res.Aggregations}
	for _, h := range res.Hits {
		hit := searchtest.Hit{ID: h.ID, Score: h.Score, Sort: h.Sort, Names: h.Names, Inner: map[string]searchtest.Inner{}}
		for name, inner := range h.Inner {
			hit.Inner[name] = searchtest.Inner(inner)
		}
		out.Hits = append(out.Hits, hit)
	}
	return out, nil
}

// supported returns the clauses and parameters of the table of clauses that are optional in a query.
func supported() []string {
	always := []string{"query", "fields", "value", "terms", "functions", "filter", "positive", "negative",
		"negative_boost", "queries", "path"}
	var out []string
	for _, c := range clause.Clauses() {
		if c.Refused != "" {
			continue
		}
		out = append(out, c.Name)
		if c.Name == "nested" {
			for _, name := range clause.InnerHits() {
				if name != "highlight" { // Fragments are not OpenSearch's; package highlight has their tests.
					out = append(out, "nested.inner_hits."+name)
				}
			}
		}
		for _, p := range c.Parameters {
			name := c.Name + "." + p.Name
			switch name {
			case "terms_set.minimum_should_match",
				"combined_fields.auto_generate_synonyms_phrase_query": // unknown to OpenSearch
				continue
			case "match_none.boost": // makes no difference
				continue
			}
			if c.Name == "bool" || !slices.Contains(always, p.Name) {
				out = append(out, name)
			}
		}
	}
	return out
}
