package searchindex

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/schemas/readmodel"
	"muster/schemas/record"
)

func TestMapping_HasEveryFieldOfSearch(t *testing.T) {
	people := readmodel.PeopleCollection()
	body, err := IndexBody(Names{Prefix: "x-", Collection: "people"}, &people, "x-people-1", Settings{Shards: 3,
		Replicas: "2"}, Meta{Generation: 4})
	require.NoError(t, err)
	var got struct {
		Settings struct{ Index map[string]any }
		Aliases  map[string]any
		Mappings map[string]any
	}
	require.NoError(t, json.Unmarshal(body, &got, json.MatchCaseInsensitiveNames(true)))
	require.EqualValues(t, 3, got.Settings.Index["number_of_shards"])
	require.Equal(t, "2", got.Settings.Index["number_of_replicas"])
	require.Contains(t, got.Aliases, "x-write-people-1")
	require.Equal(t, map[string]any{"enabled": false}, got.Mappings["_source"])
	require.Equal(t, Fingerprint(&people), got.Mappings["_meta"].(object)["mapping"])
	for _, f := range readmodel.SearchFields() {
		for _, keyword := range []bool{false, true} {
			if keyword && f.Type != readmodel.SearchText {
				continue
			}
			at := any(got.Mappings)
			for _, part := range strings.Split(Field(f, keyword), ".") {
				properties, ok := at.(object)["properties"].(object)
				require.True(t, ok, "%s", Field(f, keyword))
				at = properties[part]
				require.NotNil(t, at, "%s", Field(f, keyword))
			}
			require.NotEmpty(t, at.(object)["type"], "%s", Field(f, keyword))
		}
	}
}

func TestDocument_HasTokensWholeValuesAndElements(t *testing.T) {
	people := readmodel.PeopleCollection()
	r := newReader(&people)
	r.hash, r.id, r.version = 7, "p\"1", 5
	for i := range r.fields {
		f := &r.fields[i]
		f.number, f.numbers = readmodel.SearchMissing, nil
		switch f.Path {
		case "profile.headline":
			f.whole, f.tokens = "Café, C++!", []string{"café", "c"}
		case "experience.description": // too long for a whole value
			f.wholes, f.tokenLists = []string{"", ""}, [][]string{{"long", "text"}, nil}
		case "profile.full_name": // without tokens
			f.whole = "!!!"
		case "profile.connections":
			f.number = 0
		case "experience.title":
			f.wholes, f.tokenLists = []string{"Lead", ""}, [][]string{{"lead"}, nil}
		case "experience.start_date":
			f.numbers = []int64{-86400000, readmodel.SearchMissing}
		case "experience.is_current":
			f.flags = []uint8{1, 0}
		case "languages.language":
			f.wholes, f.tokenLists = []string{"", "Go"}, [][]string{nil, {"go"}}
		}
	}
	row, err := r.row()
	require.NoError(t, err)
	raw, err := row.AppendDocument(nil, 9, 3)
	require.NoError(t, err)
	var got map[string]any
	require.NoError(t, json.Unmarshal(raw, &got), "%s", raw)
	require.EqualValues(t, 9, got["row"].(object)["version"])
	require.Equal(t, "p\"1", got["row"].(object)["id"])
	delete(got, "row")
	require.Equal(t, map[string]any{
		"profile.headline.text": "café c", "profile.headline.keyword": "Café, C++!",
		"profile.headline.folded": "cafe c", "profile.headline.code": "café c++",
		"profile.full_name.text": "", "profile.full_name.keyword": "!!!",
		"profile.full_name.folded": "", "profile.full_name.code": "",
		"profile.connections": 0.0,
		"experience": []any{
			map[string]any{
				"title.text": "lead", "title.keyword": "Lead", "title.folded": "lead", "title.code": "lead",
				"description.text": "long text", "start_date": -86400000.0, "is_current": true,
			},
			map[string]any{"is_current": false},
		},
		"languages": []any{map[string]any{}, map[string]any{"language.text": "go", "language.keyword": "Go"}},
	}, got)
	other := row.Content
	r.contentHash++
	row, err = r.row()
	require.NoError(t, err)
	require.NotEqual(t, other, row.Content)
}

func TestSortableHash_KeepsTheOrder(t *testing.T) {
	hashes := []uint64{0, 1, 1<<63 - 1, 1 << 63, 1<<63 + 1, 1<<64 - 1}
	sortable := make([]int64, len(hashes))
	for i, h := range hashes {
		sortable[i] = SortableHash(h)
		require.Equal(t, h, HashOf(sortable[i]))
	}
	require.True(t, slices.IsSorted(sortable))
}

func TestDocumentID_DependsOnTheKey(t *testing.T) {
	key := make([]byte, KeySize)
	id := DocumentID(key, "p1")
	require.Equal(t, id, DocumentID(key, "p1"))
	require.NotEqual(t, id, DocumentID(key, "p2"))
	key[0] = 1
	require.NotEqual(t, id, DocumentID(key, "p1"))
}

// A list of values is an array of texts and one of whole values.
func TestDocument_HasTheValuesOfLists(t *testing.T) {
	companies := readmodel.CompaniesCollection()
	r := newReader(&companies)
	r.hash, r.id, r.version = 7, "c1", 5
	for i := range r.fields {
		f := &r.fields[i]
		f.number = readmodel.SearchMissing
		switch f.Path {
		case "profile.specialties":
			f.wholes, f.tokenLists = []string{"Data \"Ops\"", "", "!"}, [][]string{{"data", "ops"}, {"long"}, nil}
		case "profile.employees":
			f.number = 12
		}
	}
	row, err := r.row()
	require.NoError(t, err)
	require.False(t, row.IsErased(nil))
	raw, err := row.AppendDocument(nil, 9, 3)
	require.NoError(t, err)
	var got map[string]any
	require.NoError(t, json.Unmarshal(raw, &got), "%s", raw)
	delete(got, "row")
	require.Equal(t, map[string]any{
		"profile.specialties.text":    []any{"data ops", "long", ""},
		"profile.specialties.keyword": []any{"Data \"Ops\"", "!"},
		"profile.employees":           12.0,
	}, got)
}

func TestDocument_UpdatedAtIsOfTheNewestBumpOfItsContent(t *testing.T) {
	people := readmodel.PeopleCollection()
	r := newReader(&people)
	version := func(day int) int64 { return int64(record.VersionOf(time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC))) }
	r.id, r.version, r.contentHash = "p1", version(2), 7
	document := func() (int64, *Row) {
		for i := range r.fields {
			r.fields[i].number = readmodel.SearchMissing
			if r.fields[i].Path == people.Updated {
				r.fields[i].number = readmodel.Milliseconds(record.Version(r.version))
			}
		}
		row, err := r.row()
		require.NoError(t, err)
		raw, err := row.AppendDocument(nil, 1, 0)
		require.NoError(t, err)
		var got struct {
			Updated int64 `json:"updated_at"`
		}
		require.NoError(t, json.Unmarshal(raw, &got))
		return got.Updated, row
	}
	updated, before := document()
	require.Equal(t, readmodel.Milliseconds(record.Version(version(2))), updated)
	for _, bumps := range []struct {
		contents []uint64
		versions []int64
		want     int // day
	}{
		{[]uint64{7}, []int64{version(1)}, 2},
		{[]uint64{8}, []int64{version(5)}, 2},
		{[]uint64{7, 8, 7}, []int64{version(3), version(5), version(4)}, 4},
	} {
		r.bumpedContents, r.bumpedVersions = bumps.contents, bumps.versions
		updated, row := document()
		require.Equal(t, readmodel.Milliseconds(record.Version(version(bumps.want))), updated)
		require.Equal(t, bumps.want != 2, row.Content != before.Content, "replays compare it")
		require.Equal(t, max(r.version, slices.Max(bumps.versions)), row.Version)
	}
}
