package convert_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/ingest/internal/convert"
	"muster/ingest/internal/publish"
	"muster/ingest/internal/source"
	"muster/schemas/record"
)

// FuzzChunk checks that every line becomes messages, and that the counts of each kind reconcile with them.
func FuzzChunk(f *testing.F) {
	examples, err := filepath.Glob("../../../schemas/record/testdata/*/*.json")
	require.NoError(f, err)
	require.NotEmpty(f, examples)
	kinds := record.Kinds()
	for _, path := range examples {
		raw, err := os.ReadFile(path)
		require.NoError(f, err)
		for i := range kinds {
			f.Add(raw, uint8(i))
		}
	}
	f.Add([]byte("{\"\xff\":1}"), uint8(0))
	f.Add(
		[]byte(
			`{"user_id":1,"last_updated":"2026","codehost_username":"u","repos":[1,{"id":-1},{"id":2,`+
				`"updated_at":"x"}],"repos_complete":true}`,
		),
		uint8(2),
	)
	publisher := publish.New(f.Context(), nil, 3, publish.Options{}) // nothing is written
	f.Cleanup(func() { require.NoError(f, publisher.Close()) })
	unknown := convert.NewUnknown()
	f.Fuzz(func(t *testing.T, raw []byte, kind uint8) {
		c := convert.New(convert.Config{
			Kind: kinds[int(kind)%len(kinds)], Run: "r", File: string(raw), Unknown: unknown,
			Now: func() time.Time { return time.Unix(0, 0) },
		})
		batch := publisher.NewBatch(func(error) {})
		lines := []source.Line{
			{Raw: raw, Number: 1},
			{Raw: raw, Number: 2, Oversize: &source.Oversize{Length: 9 << 20}},
		}
		counts, err := c.Chunk(t.Context(), &source.Chunk{Lines: lines}, batch)
		require.NoError(t, err)
		messages := int64(0)
		for kind, n := range counts {
			require.Equal(t, n.Read+n.Split, n.Published+n.Rejected+n.Unchanged, "%s", kind)
			messages += n.Published + n.Rejected
		}
		// An erasure has one message per identifier and one for the log. Repeated identifiers count as unchanged.
		if c.Kind == record.KindErasure {
			require.GreaterOrEqual(t, int64(batch.Len()), messages)
			require.Equal(t, int64(2), counts[c.Kind].Read)
			return
		}
		require.Equal(t, messages, int64(batch.Len()))
		require.Equal(t, int64(2), counts[c.Kind].Read)
		require.NotZero(t, counts[c.Kind].Rejected)
	})
}
