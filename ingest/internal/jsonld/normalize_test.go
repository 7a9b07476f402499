package jsonld_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/ingest/internal/heaptest"
	"muster/ingest/internal/jsonld"
)

func normalize(t *testing.T, document string) string {
	t.Helper()
	var v any
	require.NoError(t, json.Unmarshal([]byte(document), &v))
	out, err := json.Marshal(jsonld.Normalize(v), json.Deterministic(true))
	require.NoError(t, err)
	return string(out)
}

func TestNormalize_FormsAreEqual(t *testing.T) {
	const want = `[{"@id":"https://p.example/#p","@type":["Person"],"jobTitle":"Cooper","name":"Kaj"}]`
	for name, document := range map[string]string{
		"plain": `{"@context":"https://schema.org","@id":"https://p.example/#p",` +
			`"@type":"Person","name":"Kaj","jobTitle":"Cooper"}`,
		"no context": `{"@id":"https://p.example/#p","@type":"Person","name":"Kaj","jobTitle":"Cooper"}`,
		"www, slash, no scheme": `{"@context":["www.schema.org/",{"@language":"da"}],` +
			`"@id":"https://p.example/#p","@type":"Person","name":"Kaj","jobTitle":"Cooper"}`,
		"prefixed": `{"@context":{"x":"https://schema.org/"},"@id":"https://p.example/#p",` +
			`"@type":"x:Person","x:name":"Kaj","x:jobTitle":"Cooper"}`,
		"prefix without a context": `{"@id":"https://p.example/#p","@type":"schema:Person","schema:name":"Kaj",` +
			`"schema:jobTitle":"Cooper"}`,
		"terms": `{"@context":[{"s":"http://schema.org/"},{"n":{"@id":"s:name"},` +
			`"title":"s:jobTitle","Human":"s:Person"}],"@id":"https://p.example/#p","@type":"Human","n":"Kaj",` +
			`"title":"Cooper"}`,
		"vocabulary": `{"@context":{"@vocab":"http://schema.org",` +
			`"jobTitle":{"@type":"xsd:string"}},"@id":"https://p.example/#p","@type":"Person","name":"Kaj",` +
			`"jobTitle":"Cooper"}`,
		"aliases": `{"@context":{"@vocab":"http://schema.org/","id":"@id","a":"@type"},` +
			`"id":"https://p.example/#p","a":"Person","name":"Kaj","jobTitle":"Cooper"}`,
		"schema.org context": `{"@context":"http://schema.org/docs/jsonldcontext.jsonld",` +
			`"id":"https://p.example/#p","type":"Person","name":"Kaj","jobTitle":"Cooper"}`,
		"base, prefix of an id": `{"@context":["https://schema.org",{"@base":"https://p.example/about"}],` +
			`"@id":"/#p","@type":"Person","name":"Kaj","jobTitle":"Cooper"}`,
		"nested context": `{"@context":{"@vocab":"https://other.example/"},` +
			`"@graph":{"@context":"https://schema.org","@id":"https://p.example/#p","@type":"Person",` +
			`"name":"Kaj","jobTitle":"Cooper"}}`,
		"expanded": `[{"@id":"https://p.example/#p","@type":["http://www.schema.org/Person"],` +
			`"https://schema.org/name":[{"@value":"Kaj"}],"http://schema.org/jobTitle":[{"@value":"Cooper"}]}]`,
		"languages": `{"@context":{"@vocab":"https://schema.org/",` +
			`"name":{"@container":"@language"}},"@id":"https://p.example/#p","@type":"Person","name":{"da":"Kaj",` +
			`"en":"Caius"},"jobTitle":"Cooper"}`,
		"parts of one node": `{"@graph":[{"@id":"https://p.example/#p","@type":"Person","name":"Kaj"},` +
			`{"@id":"https://p.example/#p","@type":"Person","jobTitle":"Cooper","name":"Kaj"}]}`,
		"names of other vocabularies": `{"@context":{"@vocab":"https://schema.org/",` +
			`"f":"http://xmlns.com/foaf/0.1/","nick":null},"@id":"https://p.example/#p","@type":["Person",` +
			`"f:Person"],"name":"Kaj","jobTitle":"Cooper","f:name":"X","nick":"k"}`,
	} {
		got := normalize(t, document)
		got = strings.NewReplacer(`["Kaj"]`, `"Kaj"`, `["Cooper"]`, `"Cooper"`, `["Kaj","Kaj"]`, `"Kaj"`).Replace(got)
		require.Equal(t, want, got, name)
	}
}

func TestNormalize_UnwrapsValues(t *testing.T) {
	for value, want := range map[string]string{
		`"x"`:                              `"x"`,
		`{"@value":7,"@type":"xsd:int"}`:   `7`,
		`{"@list":["a","b"]}`:              `["a","b"]`,
		`{"@set":["a"]}`:                   `["a"]`,
		`[{"@list":["a"]},{"@set":["b"]}]`: `["a","b"]`,
		`{"1":"b","0":"a","10":"c"}`:       `["a","b","c"]`,
		`[{"@value":"a","@language":"da"},{"@value":"b","@language":"en"},` +
			`{"@value":"c","@language":"da"},"d"]`: `["a","c","d"]`,
		`"S&iacute;ne O&#39;H &#x41;"`:               `"Síne O'H A"`,
		`"&amp;amp; AT&T; R&D &copy 2020 &unknown;"`: `"&amp; AT&T; R&D &copy 2020 &unknown;"`,
		`[null,[["a"]]]`:                             `["a"]`,
	} {
		require.Equal(t, `[{"@type":["Person"],"name":`+want+`}]`,
			normalize(t, `{"@type":"Person","name":`+value+`}`), value)
	}
}

// People and organizations in pages and articles inherit their date.
func TestNormalize_ReferencedNodesInheritDate(t *testing.T) {
	require.Equal(
		t,
		`[{"@date":"2026-02-12","@nested":true,"@type":["Restaurant","Organization"],"name":"B"},`+
			`{"@date":"2026-02-12","@nested":true,"@type":["Person"],"name":"A"}]`,
		strings.Replace(
			normalize(
				t,
				`{"@type":"Article","dateModified":"2026-02-12","datePublished":"2026-01-01",`+
					`"author":{"@type":"Person","name":"A"},"creator":{"@type":"Restaurant","name":"B"}}`,
			),
			`{"@date":"2026-02-12","@nested":true,"@type":["Person"],"name":"A"},{"@date":"2026-02-12",`+
				`"@nested":true,"@type":["Restaurant","Organization"],"name":"B"}`,
			`{"@date":"2026-02-12","@nested":true,"@type":["Restaurant","Organization"],"name":"B"},`+
				`{"@date":"2026-02-12","@nested":true,"@type":["Person"],"name":"A"}`,
			1,
		),
	)
	require.Equal(
		t,
		`[{"@date":"2026-01-29","@id":"#p","@type":["Person"],"name":"A"}]`,
		normalize(
			t,
			`{"@graph":[{"@id":"#p","@type":"Person","name":"A"},{"@type":"ProfilePage",`+
				`"mainEntity":{"@id":"#p"},"dateModified":"2026-01-29"}]}`,
		),
	)
	require.Equal(
		t,
		`[{"@date":"2026","@nested":true,"@type":["Person"],"name":"A"}]`,
		normalize(
			t,
			`{"@type":"ItemList","dateModified":"2026","itemListElement":[{"@type":"ListItem",`+
				`"item":{"@type":"WebPage","author":{"@type":"Person","name":"A"}}}]}`,
		),
	)
	require.Equal(t, `[]`, normalize(t, `{"@type":"Event","performer":{"@type":"Person","name":"A"}}`))
}

// Circular references end.
func TestNormalize_ReplacesReferencesByNodes(t *testing.T) {
	require.Equal(
		t,
		`[{"@id":"#a","@type":["Person"],"worksFor":{"@id":"#b","@type":["Organization"],"name":"B"}},`+
			`{"@id":"#b","@type":["Organization"],"name":"B"}]`,
		normalize(t,
			`[{"@id":"#a","@type":"Person","worksFor":{"@id":"#b"}},{"@id":"#b","@type":"Organization","name":"B"}]`),
	)
	got := normalize(
		t,
		`[{"@id":"#a","@type":"Person","knows":[{"@id":"#a"},{"@id":"#b"}]},{"@id":"#b","@type":"Person",`+
			`"author":{"@id":"#a","knows":{"@id":"#b"}}}]`,
	)
	require.Less(t, len(got), 10_000)
}

func TestNormalize_HostileDocumentsTakeLinearTime(t *testing.T) {
	people := func(n int, field func(int) string) string {
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `{"@id":"#%d","@type":"Person",%s}`, i, field(i))
		}
		return "[" + b.String() + "]"
	}
	var all strings.Builder
	for i := range 500 {
		fmt.Fprintf(&all, `{"@id":"#%d"},`, i)
	}
	terms := strings.Repeat(`"x":"y","y":"x",`, 1)
	for name, document := range map[string]string{
		"everything refers to everything": people(500,
			func(int) string { return `"knows":[` + strings.TrimSuffix(all.String(), ",") + `]` }),
		"repeated node": "[" + strings.Repeat(`{"@id":"#a","@type":"Person","name":["x"]},`,
			50_000) + "{}]",
		"names that define each other": `{"@context":{` + terms + `"z":"z"},"@type":"Person","x":1,"z":2,"x:y":3}`,
		"nested contexts": strings.Repeat(`{"@context":{"a":"https://schema.org/"},"a:author":`,
			400) + "1" + strings.Repeat("}", 400),
		"chain of authors": people(5000,
			func(i int) string { return fmt.Sprintf(`"author":{"@id":"#%d"}`, i+1) }),
	} {
		var v any
		require.NoError(t, json.Unmarshal([]byte(document), &v))
		began := time.Now()
		took := heaptest.Peak(func() { jsonld.Normalize(v) })
		require.Less(t, time.Since(began), time.Minute, name)
		require.Less(t, took, uint64(600<<20), name)
	}
}
