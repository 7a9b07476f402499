package record_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"muster/schemas/record"
)

// snapshot is the content of an example's golden file. It includes the hash because hashes are stored: if they changed,
// every record would look new.
type snapshot struct {
	Key     string          `json:"key"`
	Version string          `json:"version"`
	Deleted bool            `json:"deleted"`
	Hash    string          `json:"hash"`
	Record  jsontext.Value  `json:"record"`
	Parts   []snapshot      `json:"parts,omitempty"`
	Kind    record.Kind     `json:"kind"`
	Unknown *jsontext.Value `json:"unknown,omitempty"`
}

func snapshotOf(r *record.Record) snapshot {
	return snapshot{
		Kind: r.Kind, Key: r.Key, Version: r.Version.String(), Deleted: r.Deleted,
		Hash: fmt.Sprintf("%016x", r.Hash), Record: r.JSON,
	}
}

func TestDecode_ExamplesEqualGoldenFiles(t *testing.T) {
	for _, d := range allDefinitions() {
		for _, file := range examples(t, d.Kind) {
			t.Run(file, func(t *testing.T) {
				raw, err := os.ReadFile(file)
				require.NoError(t, err)
				r, err := record.Decode(d.Kind, raw)
				require.NoError(t, err)

				again, err := record.Decode(d.Kind, r.JSON)
				require.NoError(t, err)
				require.Equal(t, snapshotOf(r), snapshotOf(again))
				require.Equal(t, r.Body, again.Body)

				// The Go type has all fields of the record, including unknown ones.
				if !r.Deleted {
					require.JSONEq(t, withoutEmpty(t, r.JSON), withoutEmpty(t, marshal(t, r.Body)))
				}

				got := snapshotOf(r)
				parts, rejected := r.SplitEmbedded()
				require.Empty(t, rejected)
				for _, part := range parts {
					decoded, err := record.Decode(part.Kind, part.JSON)
					require.NoError(t, err)
					require.Equal(t, snapshotOf(part), snapshotOf(decoded))
					require.Equal(t, part.Body, decoded.Body)
					got.Parts = append(got.Parts, snapshotOf(part))
				}
				if len(parts) > 0 {
					got.Record = r.JSON
				}
				golden := strings.TrimSuffix(file, ".json") + ".golden"
				want, err := json.Marshal(got, jsontext.WithIndent("  "))
				require.NoError(t, err)
				want = append(want, '\n')
				if *update {
					require.NoError(t, os.WriteFile(golden, want, 0o644))
				}
				stored, err := os.ReadFile(golden)
				require.NoError(t, err, "run go test ./record -run Examples -update")
				require.Equal(t, string(stored), string(want))
			})
		}
	}
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return raw
}

// withoutEmpty drops absent values: nulls, empty strings, arrays and objects.
func withoutEmpty(t *testing.T, raw []byte) string {
	t.Helper()
	var value any
	require.NoError(t, json.Unmarshal(raw, &value))
	var drop func(any) (any, bool)
	drop = func(v any) (any, bool) {
		switch v := v.(type) {
		case nil:
			return nil, true
		case string:
			return v, v == ""
		case map[string]any:
			for name, member := range v {
				kept, empty := drop(member)
				if v[name] = kept; empty {
					delete(v, name)
				}
			}
			return v, len(v) == 0
		case []any:
			kept := []any{}
			for _, element := range v {
				if element, empty := drop(element); !empty {
					kept = append(kept, element)
				}
			}
			return kept, len(kept) == 0
		}
		return v, false
	}
	kept, _ := drop(value)
	return string(marshal(t, kept))
}

func decode(t testing.TB, kind record.Kind, raw string) *record.Record {
	t.Helper()
	r, err := record.Decode(kind, []byte(raw))
	require.NoError(t, err)
	return r
}

func TestHash_DependsOnContentOnly(t *testing.T) {
	const kind = record.KindNetworkPerson
	base := decode(t, kind, `{"profile_id":"p","username":"u","last_updated":"2026","emails":["a","b"],`+
		`"x":{"k":1,"l":"é"}}`)
	same := map[string]string{
		"another version": `{"profile_id":"p","username":"u","last_updated":"2027-03-04","emails":["a","b"],` +
			`"x":{"k":1,"l":"é"}}`,
		"another order": `{"x":{"l":"é","k":1},"emails":["a","b"],"last_updated":"2026","username":"u",` +
			`"profile_id":"p"}`,
		"white space": " { \"profile_id\" : " +
			"\"p\",\n\"username\":\"u\",\"last_updated\":\"2026\",\"emails\":[ \"a\" , \"b\" " +
			"],\t\"x\":{\"k\":1,\"l\":\"é\"} } \n",
		"escaped": `{"profile_\u0069d":"p","username":"\u0075","last_updated":"2026","emails":["a","b"],` +
			`"x":{"k":1,"l":"\u00e9"}}`,
	}
	for name, raw := range same {
		require.Equal(t, base.Hash, decode(t, kind, raw).Hash, name)
	}
	other := map[string]string{
		"another value": `{"profile_id":"p","username":"v","last_updated":"2026","emails":["a","b"],"x":{"k":1,` +
			`"l":"é"}}`,
		"lists in another order": `{"profile_id":"p","username":"u","last_updated":"2026","emails":["b","a"],` +
			`"x":{"k":1,"l":"é"}}`,
		"values swapped": `{"profile_id":"p","username":"u","last_updated":"2026","emails":["a","b"],"x":{"l":1,` +
			`"k":"é"}}`,
		"number as a string": `{"profile_id":"p","username":"u","last_updated":"2026","emails":["a","b"],` +
			`"x":{"k":"1","l":"é"}}`,
		"one more": `{"profile_id":"p","username":"u","last_updated":"2026","emails":["a","b"],"x":{"k":1,"l":"é"},` +
			`"y":null}`,
		"one fewer": `{"profile_id":"p","username":"u","last_updated":"2026","emails":["a","b"],"x":{"k":1}}`,
		"nested otherwise": `{"profile_id":"p","username":"u","last_updated":"2026","emails":[["a","b"]],` +
			`"x":{"k":1,"l":"é"}}`,
		"field moved out": `{"profile_id":"p","username":"u","last_updated":"2026","emails":["a","b"],"x":{"k":1},` +
			`"l":"é"}`,
		"version below counts": `{"profile_id":"p","username":"u","last_updated":"2026","emails":["a","b"],` +
			`"x":{"k":1,"l":"é","last_updated":"2026"}}`,
	}
	seen := map[uint64]string{base.Hash: "base"}
	for name, raw := range other {
		r, err := record.Decode(kind, []byte(raw))
		if err != nil {
			continue // invalid: nested arrays of emails
		}
		require.NotContains(t, seen, r.Hash, "%s has the hash of %s", name, seen[r.Hash])
		seen[r.Hash] = name
	}
}

func TestHash_DiffersForSimilarRecords(t *testing.T) {
	seen := make(map[uint64]bool)
	for i := range 20_000 {
		r := decode(t, record.KindCodehostRepo, fmt.Sprintf(`{"user_id":%d,"id":%d,"updated_at":"2026"}`, i%317, i/317))
		require.False(t, seen[r.Hash], r.Key)
		seen[r.Hash] = true
	}
}

func TestHash_IsEqualForShuffledRecords(t *testing.T) {
	raw, err := os.ReadFile("testdata/network-person/full.json")
	require.NoError(t, err)
	want := decode(t, record.KindNetworkPerson, string(raw))
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		shuffled := shuffle(t, random, bytes.TrimSpace(raw))
		got := decode(t, record.KindNetworkPerson, string(shuffled))
		require.Equal(t, want.Hash, got.Hash)
		require.True(t, bytes.Equal(got.JSON, compact(t, shuffled)))
		require.JSONEq(t, string(want.JSON), string(got.JSON))
	}
}

func compact(t *testing.T, raw []byte) []byte {
	t.Helper()
	value := jsontext.Value(bytes.Clone(raw))
	require.NoError(t, value.Compact())
	return value
}

// shuffle returns the JSON with random field order and white space.
func shuffle(t *testing.T, random *rand.Rand, raw []byte) []byte {
	t.Helper()
	space := func() string { return []string{"", "", " ", "\n", "\t \r"}[random.IntN(5)] }
	decoder := jsontext.NewDecoder(bytes.NewReader(raw))
	var value func() string
	value = func() string {
		switch decoder.PeekKind() {
		case '{':
			var members []string
			_, err := decoder.ReadToken()
			require.NoError(t, err)
			for decoder.PeekKind() != '}' {
				name, err := decoder.ReadValue()
				require.NoError(t, err)
				text := string(name)
				members = append(members, space()+text+space()+":"+space()+value()+space())
			}
			_, err = decoder.ReadToken()
			require.NoError(t, err)
			random.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
			return "{" + space() + strings.Join(members, ",") + "}"
		case '[':
			var elements []string
			_, err := decoder.ReadToken()
			require.NoError(t, err)
			for decoder.PeekKind() != ']' {
				elements = append(elements, space()+value()+space())
			}
			_, err = decoder.ReadToken()
			require.NoError(t, err)
			return "[" + space() + strings.Join(elements, ",") + "]"
		}
		v, err := decoder.ReadValue()
		require.NoError(t, err)
		return string(v)
	}
	return []byte(space() + value() + space())
}

func TestDecode_DeletionKeepsIdentityAndVersionOnly(t *testing.T) {
	r := decode(t, record.KindNetworkPerson,
		`{"profile_id":"p","emails":["jane@mail.example"],"username":"jane", "deleted":true,"last_updated":"2026",`+
			`"secret":"x","experience":[{"start":"never"}]}`)
	require.True(t, r.Deleted)
	require.Equal(t, `{"profile_id":"p","deleted":true,"last_updated":"2026"}`, string(r.JSON))
	require.Equal(t, &record.NetworkPerson{ProfileID: "p", LastUpdated: "2026", Deleted: true}, r.Body)
	bare := decode(t, record.KindNetworkPerson, `{"profile_id":"p","deleted":true,"last_updated":"2027"}`)
	require.Equal(t, bare.Hash, r.Hash)

	link := decode(t, record.KindAccountLink,
		`{"a":{"platform":"network","username":"B"},"b":{"platform":"codehost","username":"a"},"source":"s",`+
			`"observed_at":"2026","deleted":true,"note":1}`)
	require.Equal(t, "codehost:a|network:b|s", link.Key)
	require.NotContains(t, string(link.JSON), "note")

	erasure := decode(t, record.KindErasure,
		`{"identifiers":[{"type":"email","value":"a@b.c"}],"requested_at":"2026","scope":"all",`+
			`"requested_by":"clerk","note":"file 7","deleted":true}`)
	require.Equal(t, `{"identifiers":[{"type":"email","value":"a@b.c"}],"requested_at":"2026","requested_by":"clerk",`+
		`"note":"file 7","deleted":true}`, string(erasure.JSON))
}

func TestRecord_KeyIsIdentity(t *testing.T) {
	for _, c := range []struct {
		kind     record.Kind
		raw, key string
	}{
		{record.KindNetworkPerson, `{"profile_id":"p_12","username":"u","last_updated":"2026"}`, "p_12"},
		{record.KindNetworkCompany, `{"company_id":"c/1","last_updated":"2026"}`, "c/1"},
		{record.KindCodehostPerson, `{"user_id":42,"codehost_username":"u","last_updated":"2026"}`, "42"},
		{record.KindCodehostRepo, `{"user_id":42,"id":7,"updated_at":"2026"}`, "42/7"},
		{record.KindCodehostCommit, `{"user_id":42,"sha":"abc","author_date":"2026"}`, "42/abc"},
		{record.KindMicroblogPerson, `{"user_id":"99","last_updated":"2026"}`, "99"},
		{record.KindCodehostList, `{"user_id":42,"list":"commits","last_updated":"2026"}`, "42/commits"},
		{record.KindAccountLink, `{"a":{"platform":"codehost","username":"@Jane"},"b":{"platform":"network",` +
			`"username":"J%C3%89"},"source":"dir","observed_at":"2026"}`, "codehost:jane|network:jé|dir"},
		{record.KindAccountLink, `{"a":{"platform":"network","username":"jé"},"b":{"platform":"codehost",` +
			`"username":"jane"},"source":"dir","observed_at":"2026"}`, "codehost:jane|network:jé|dir"},
	} {
		require.Equal(t, c.key, decode(t, c.kind, c.raw).Key)
	}
	named := func(value string) string {
		return decode(t, record.KindErasure, `{"identifiers":[{"type":"user_id","value":`+value+
			`}],"requested_at":"2026"}`).Key
	}
	require.Equal(t, named(`"42"`), named("42.0"))
	require.NotEqual(t, named(`"42"`), named("43"))
}

func TestDecode_AcceptsLargeAndUnusualRecords(t *testing.T) {
	list := strings.TrimSuffix(strings.Repeat(`{"skill":"Go 🦫"},`, 10_000), ",")
	r := decode(t, record.KindNetworkPerson, `{"profile_id":"p","username":"u","last_updated":"2026","skills":[`+list+
		`]}`)
	require.Len(t, r.Body.(*record.NetworkPerson).Skills, 10_000)

	head := `{"profile_id":"p","username":"u","last_updated":"2026","summary":"`
	raw := head + strings.Repeat("ש", (record.MaxSize-len(head)-2)/2) + `"}`
	require.LessOrEqual(t, len(raw), record.MaxSize)
	require.Greater(t, len(raw), record.MaxSize-2)
	decode(t, record.KindNetworkPerson, raw)

	deep := `{"profile_id":"p","username":"u","last_updated":"2026","x":` + strings.Repeat("[", 63) +
		strings.Repeat("]", 63) + `}`
	decode(t, record.KindNetworkPerson, deep)

	decode(
		t,
		record.KindNetworkPerson,
		`{"profile_id":"p","username":"u","last_updated":"2026","emails":["a\\",""],"x":"\\\\","y\\":"\"",`+
			`"z":"\\u0000"}`,
	)
}

func TestDecode_NullsInListsAreAbsent(t *testing.T) {
	r := decode(t, record.KindNetworkPerson,
		`{"profile_id":"p","username":"u","last_updated":"2026","emails":[null,"a@x.example",null],"experience":`+
			`[null,{"title":"t"}],"skills":[null]}`)
	p := r.Body.(*record.NetworkPerson)
	require.Equal(t, []string{"a@x.example"}, p.Emails)
	require.Equal(t, []record.Position{{Title: "t"}}, p.Experience)
	require.Empty(t, p.Skills)
}

func TestDecode_EmptyObjectsAreAbsent(t *testing.T) {
	r := decode(t, record.KindNetworkPerson,
		`{"profile_id":"p","username":"u","last_updated":"2026","location":{},"current_position":{"company":`+
			`{"name":null}},"experience":[{"title":"t","company":{}},{"location":{}}],"x":{}}`)
	p := r.Body.(*record.NetworkPerson)
	require.Nil(t, p.Location)
	require.Nil(t, p.CurrentPosition)
	require.Equal(t, []record.Position{{Title: "t"}}, p.Experience)
	require.JSONEq(t, `{"x":{}}`, string(p.Unknown), "unknown fields are served unchanged")
}

func TestDecode_AcceptsBoundsOfConfidence(t *testing.T) {
	for _, c := range []string{"0", "1"} {
		decode(t, record.KindAccountLink,
			`{"a":{"platform":"network","username":"x"},"b":{"platform":"codehost","username":"y"},"source":"s",`+
				`"observed_at":"2026","confidence":`+c+`}`)
	}
}
