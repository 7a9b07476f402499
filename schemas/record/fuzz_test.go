package record_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"muster/schemas/record"
)

// FuzzDecode checks what must hold for any bytes: Decode returns a record or a *ValidationError; a record survives its
// own JSON with the same identity, version, hash and body; and fields in canonical order (RFC 8785) have the same hash.
func FuzzDecode(f *testing.F) {
	definitions := allDefinitions()
	for i, d := range definitions {
		files, err := filepath.Glob(filepath.Join("testdata", string(d.Kind), "*.json"))
		require.NoError(f, err)
		for _, file := range files {
			raw, err := os.ReadFile(file)
			require.NoError(f, err)
			f.Add(uint8(i), raw)
		}
	}
	for _, c := range defects() {
		if len(c.raw) < 4096 {
			for i, d := range definitions {
				if d.Kind == c.kind {
					f.Add(uint8(i), []byte(c.raw))
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, index uint8, raw []byte) {
		kind := definitions[int(index)%len(definitions)].Kind
		input := bytes.Clone(raw)
		r, err := record.Decode(kind, raw)
		require.Equal(t, input, raw, "the input is not modified")
		if err != nil {
			bad, ok := record.AsValidationError(err)
			require.True(t, ok)
			require.NotEmpty(t, bad.Code)
			require.NotEmpty(t, bad.Reason)
			require.Equal(t, kind, bad.Kind)
			require.True(t, utf8.ValidString(bad.Error()))
			return
		}
		require.NotEmpty(t, r.Key)
		require.True(t, jsontext.Value(r.JSON).IsValid())
		compact := jsontext.Value(bytes.Clone(r.JSON))
		require.NoError(t, compact.Compact())
		require.Equal(t, string(compact), string(r.JSON))

		again, err := record.Decode(kind, r.JSON)
		require.NoError(t, err)
		require.Equal(t, r, again)

		// Canonical field order. Canonicalize also rewrites numbers, so only records whose numbers it leaves unchanged
		// can be compared.
		sorted := jsontext.Value(bytes.Clone(r.JSON))
		if err := sorted.Canonicalize(jsontext.CanonicalizeRawInts(false),
			jsontext.CanonicalizeRawFloats(false)); err == nil {
			other, err := record.Decode(kind, sorted)
			require.NoError(t, err)
			require.Equal(t, r.Hash, other.Hash)
			require.Equal(t, r.Key, other.Key)
		}

		// The encoded Go type is a valid record of the same identity.
		written, err := json.Marshal(r.Body)
		require.NoError(t, err)
		rewritten, err := record.Decode(kind, written)
		if err == nil {
			require.Equal(t, r.Key, rewritten.Key)
			require.Equal(t, r.Version, rewritten.Version)
		} else {
			bad, _ := record.AsValidationError(err)
			require.Equal(t, record.CodeTooLarge, bad.Code, err)
		}

		parts, _ := r.SplitEmbedded()
		for _, part := range parts {
			decoded, err := record.Decode(part.Kind, part.JSON)
			require.NoError(t, err)
			require.Equal(t, part, decoded)
		}
		if len(parts) > 0 {
			rest, err := record.Decode(kind, r.JSON)
			require.NoError(t, err)
			require.Equal(t, r, rest)
		}
	})
}
