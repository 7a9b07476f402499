package source_test

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"muster/ingest/internal/source"
	"muster/schemas/record"
)

type parquetPlace struct {
	City    string  `parquet:"city,optional"`
	Country *string `parquet:"country"`
}

type parquetJob struct {
	Title   string   `parquet:"title"`
	Current *bool    `parquet:"current"`
	Tags    []string `parquet:"tags,list"`
}

type parquetPerson struct {
	ProfileID   string            `parquet:"profile_id"`
	LastUpdated time.Time         `parquet:"last_updated,timestamp(microsecond)"`
	Username    string            `parquet:"username,dict"`
	Connections *int64            `parquet:"connections"`
	Small       uint32            `parquet:"small"`
	Score       float64           `parquet:"score"`
	Location    *parquetPlace     `parquet:"location"`
	Experience  []parquetJob      `parquet:"experience,list"`
	Emails      []string          `parquet:"emails"`
	Extra       map[string]string `parquet:"extra"`
	Key         uuid.UUID         `parquet:"key,uuid"`
	Price       int64             `parquet:"price,decimal(2:18)"`
	Born        int32             `parquet:"born,date"`
	Raw         []byte            `parquet:"raw"`
	Free        string            `parquet:"free,json"`
}

func parquetFile(t testing.TB, people []parquetPerson, options ...parquet.WriterOption) string {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[parquetPerson](&b, options...)
	_, err := w.Write(people)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	path := filepath.Join(t.TempDir(), "people")
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
	return path
}

func pointer[T any](v T) *T { return &v }

func TestParquet_ConvertsRows(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_000, time.UTC)
	key := uuid.MustParse("01234567-89ab-cdef-0123-456789abcdef")
	people := []parquetPerson{
		{
			ProfileID: "p1", LastUpdated: at, Username: "ü\"\\\n", Connections: pointer(int64(500)),
			Small: math.MaxUint32, Score: 1.5,
			Location: &parquetPlace{City: "Lagos"}, Experience: []parquetJob{
				{
					Title:   "One",
					Current: pointer(true),
					Tags:    []string{"a", "b"},
				}, {}, {Tags: []string{""}, Current: pointer(false)},
			},
			Emails: []string{"a@b.example", "c@d.example"}, Extra: map[string]string{"k": "v"},
			Key: key, Price: -5, Born: -1, Raw: []byte{0xff, 0x00}, Free: `{"any":[1,2]}`,
		},
		{ProfileID: "p2", LastUpdated: time.Unix(-1, 0), Score: math.NaN(), Price: 123456, Free: "{broken"},
		{ProfileID: "p3", LastUpdated: at, Location: &parquetPlace{}, Experience: []parquetJob{{}},
			Raw: []byte("text")},
	}
	path := parquetFile(t, people, parquet.Compression(&parquet.Zstd))
	s, err := source.Open(t.Context(), path,
		source.Options{MaxLine: 1 << 20, Head: 64 << 10, Kind: record.KindNetworkPerson})
	require.NoError(t, err)
	got, end, err := objects(t, s)
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, int64(3), end.Line)
	require.Len(t, got, 3)
	require.JSONEq(
		t,
		`{"profile_id":"p1","last_updated":"2026-01-02T03:04:05.000678Z","username":"ü\"\\\n",
		"connections":500,"small":4294967295,
		"score":1.5,"location":{"city":"Lagos"},"experience":[{"title":"One","current":true,"tags":["a","b"]},
		{"title":"","tags":[]},{"title":"","current":false,"tags":[""]}],
		"emails":["a@b.example","c@d.example"],"extra":{"k":"v"},"key":"01234567-89ab-cdef-0123-456789abcdef",
		"price":-0.05,"born":"1969-12-31",
		"raw":"/wA=","free":{"any":[1,2]}}`,
		got[0].text,
	)
	require.JSONEq(
		t,
		`{"profile_id":"p2","last_updated":"1969-12-31T23:59:59Z","username":"","small":0,"score":"NaN",
		"experience":[],"emails":[],"extra":{},
		"key":"00000000-0000-0000-0000-000000000000","price":1234.56,"born":"1970-01-01","raw":"","free":"{broken"}`,
		got[1].text,
	)
	require.JSONEq(
		t,
		`{"profile_id":"p3","last_updated":"2026-01-02T03:04:05.000678Z","username":"","small":0,"score":0,
		"location":{},
		"experience":[{"title":"","tags":[]}],
		"emails":[],"extra":{},"key":"00000000-0000-0000-0000-000000000000",
		"price":0.00,"born":"1970-01-01","raw":"text","free":""}`,
		got[2].text,
	)
	for i, o := range got {
		require.Equal(t, int64(i+1), o.number)
		require.Positive(t, o.offset)
	}
}

// Rows of several groups keep their numbers, and oversize rows are skipped.
func TestParquet_ResumesAtAnyRow(t *testing.T) {
	const n = 5000
	people := make([]parquetPerson, n)
	for i := range people {
		people[i] = parquetPerson{ProfileID: fmt.Sprint(i), Username: strings.Repeat("x", i%100)}
	}
	people[3000].Username = strings.Repeat("y", 5000)
	path := parquetFile(t, people, parquet.MaxRowsPerRowGroup(700), parquet.PageBufferSize(4096))
	for _, from := range []int64{0, 1, 699, 700, 701, 1400, 4321, n - 1, n} {
		opts := source.Options{MaxLine: 1000, Head: 10, From: source.Position{Line: from}, ChunkSize: 10_000}
		s, err := source.Open(t.Context(), path, opts)
		require.NoError(t, err)
		got, _, err := objects(t, s)
		require.ErrorIs(t, err, io.EOF)
		require.Len(t, got, int(n-from))
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, info.Size(), s.Consumed())
		for i, o := range got {
			row := from + int64(i)
			require.Equal(t, row+1, o.number)
			if row == 3000 {
				require.Greater(t, o.length, int64(5000))
				require.Len(t, o.text, 10)
				continue
			}
			require.Contains(t, o.text, fmt.Sprintf(`{"profile_id":"%d",`, row))
		}
	}
	_, err := source.Open(t.Context(), path,
		source.Options{MaxLine: 1000, Head: 10, From: source.Position{Line: n + 1}})
	require.ErrorContains(t, err, "the file has only 5000 rows")
}

// A damaged file returns an error with its name, and never panics.
func TestParquet_DamagedFileReturnsRowsBefore(t *testing.T) {
	people := make([]parquetPerson, 1000)
	for i := range people {
		people[i] = parquetPerson{ProfileID: fmt.Sprint(i), Username: fmt.Sprint(i * 7919)}
	}
	sound, err := os.ReadFile(parquetFile(t, people, parquet.MaxRowsPerRowGroup(100)))
	require.NoError(t, err)
	read := func(data []byte) error {
		path := filepath.Join(t.TempDir(), "f.parquet")
		require.NoError(t, os.WriteFile(path, data, 0o600))
		s, err := source.Open(t.Context(), path, source.Options{MaxLine: 1 << 20, Head: 64 << 10})
		if err != nil {
			return err
		}
		_, _, err = objects(t, s)
		return err
	}
	require.ErrorIs(t, read(sound), io.EOF)
	require.ErrorContains(t, read(sound[:len(sound)-100]), "f.parquet: read Parquet footer")
	require.Error(t, read(nil))
	require.Error(t, read([]byte("PAR1")))
	require.Error(t, read([]byte("not Parquet, but long enough to be a file")))
	failures := 0
	for i := 4; i < len(sound); i += len(sound)/60 + 1 { // each damage alone
		data := bytes.Clone(sound)
		for j := i; j < min(i+20, len(data)); j++ {
			data[j] ^= 0xa5
		}
		if err := read(data); err != io.EOF { //nolint:errorlint // anything else is a failure
			failures++
			var bad *source.Error
			require.ErrorAs(t, err, &bad)
		}
	}
	require.Greater(t, failures, 5)
}
