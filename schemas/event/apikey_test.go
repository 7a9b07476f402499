package event_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/event"
)

// Its checksum was computed by another implementation (Python's zlib).
func TestParseAPIKey_AcceptsKnownKey(t *testing.T) {
	key, err := event.GenerateAPIKey(bytes.NewReader(make([]byte, 100)))
	require.NoError(t, err)
	require.Equal(t, "mk_live_00000000_"+strings.Repeat("0", 32)+"24KEVz", key.Reveal())
	require.Equal(t, "00000000", key.ID())
	sum := sha256.Sum256([]byte(key.Reveal()))
	require.Equal(t, hex.EncodeToString(sum[:]), key.Hash())
	require.True(t, key.Matches(key.Hash()))
	require.False(t, key.Matches(""))
	require.False(t, key.Matches(strings.Repeat("0", 64)))
	parsed, err := event.ParseAPIKey(key.Reveal())
	require.NoError(t, err)
	require.Equal(t, key, parsed)
}

func TestAPIKey_IsUniqueAndRedacted(t *testing.T) {
	seen := map[string]bool{}
	counts := map[rune]int{}
	for range 2000 {
		key, err := event.GenerateAPIKey(rand.Reader)
		require.NoError(t, err)
		require.Len(t, key.Reveal(), 55)
		require.False(t, seen[key.Reveal()])
		seen[key.Reveal()] = true
		for _, verb := range []string{"%v", "%s", "%+v", "%#v", "%q"} {
			require.NotContains(t, fmt.Sprintf(verb, key), key.Reveal()[17:])
			require.NotContains(t, fmt.Sprintf(verb, struct{ K event.APIKey }{key}), key.Reveal()[17:])
		}
		for _, r := range key.Reveal()[17:49] {
			counts[r]++
		}
	}
	require.Len(t, counts, 62)
	for r, n := range counts { // 1032 expected, standard deviation 32
		require.InDelta(t, 1032, n, 200, string(r))
	}
}

func TestRedactAPIKeys_KeepsThePublicPart(t *testing.T) {
	k, err := event.GenerateAPIKey(rand.Reader)
	require.NoError(t, err)
	key := k.Reveal()
	for text, want := range map[string]string{
		"": "", "plain": "plain", "mk_live_": "mk_live_", "mk_live_" + k.ID(): "mk_live_" + k.ID(),
		"a mk_live_/" + key + ", " + key[:20] + "/x": "a mk_live_/" + k.String() + ", " + k.String() + "/x",
		"mk_live_mk_live_12345678_abc":               "mk_live_mk_live_12345678_...",
	} {
		require.Equal(t, want, event.RedactAPIKeys(text))
	}
}

func TestGenerateAPIKey_FailsWithoutRandomness(t *testing.T) {
	_, err := event.GenerateAPIKey(bytes.NewReader([]byte("short")))
	require.Error(t, err)
	// 248 and more would be biased and are skipped.
	key, err := event.GenerateAPIKey(bytes.NewReader(append(bytes.Repeat([]byte{255}, 40),
		bytes.Repeat([]byte{61}, 40)...)))
	require.NoError(t, err)
	require.Equal(t, "zzzzzzzz", key.ID())
}

func TestParseAPIKey_RejectsInvalid(t *testing.T) {
	key, err := event.GenerateAPIKey(rand.Reader)
	require.NoError(t, err)
	good := key.Reveal()
	for _, bad := range []string{
		"", "mk_live_", good[:len(good)-1], good + "0", strings.Replace(good, "mk_live_", "mk_test_", 1),
		strings.ToUpper(good[:8]) + good[8:],
		good[:16] + "-" + good[17:], good[:20] + "é" + good[22:], good[:20] + " " + good[21:], " " + good[1:],
		good[:20] + "\x00" + good[21:],
	} {
		_, err := event.ParseAPIKey(bad)
		require.ErrorIs(t, err, event.ErrKeyForm, bad)
	}
	// Every mistyped character and every swap of adjacent characters is detected.
	for i := len("mk_live_"); i < len(good); i++ {
		if good[i] == '_' {
			continue
		}
		other := byte('x')
		if good[i] == other {
			other = 'y'
		}
		_, err := event.ParseAPIKey(good[:i] + string(other) + good[i+1:])
		require.ErrorIs(t, err, event.ErrKeyChecksum)
		if i+1 < len(good) && good[i+1] != '_' && good[i] != good[i+1] {
			_, err = event.ParseAPIKey(good[:i] + string(good[i+1]) + string(good[i]) + good[i+2:])
			require.ErrorIs(t, err, event.ErrKeyChecksum)
		}
	}
}

func FuzzParseAPIKey(f *testing.F) {
	key, err := event.GenerateAPIKey(bytes.NewReader(make([]byte, 100)))
	require.NoError(f, err)
	f.Add(key.Reveal())
	f.Add("mk_live_00000000_00000000000000000000000000000000000000")
	f.Fuzz(func(t *testing.T, s string) {
		key, err := event.ParseAPIKey(s)
		if err != nil {
			require.True(t, errors.Is(err, event.ErrKeyForm) || errors.Is(err, event.ErrKeyChecksum))
			require.Zero(t, key)
			return
		}
		require.Equal(t, s, key.Reveal())
		require.Len(t, key.ID(), 8)
		require.True(t, key.Matches(key.Hash()))
	})
}
