package erasure

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/schemas/event"
	"muster/schemas/suppress"
)

// An archive may contain entries with another key that were removed from the present directory since. Erasures with
// another key than the archive's are an error.
func TestLog_KeepsArchivedEntriesOfOtherKeys(t *testing.T) {
	noted := func(secret byte, user string) (*suppress.Key, message) {
		material := make([]byte, suppress.KeySize)
		material[0] = secret
		key, err := suppress.NewKey(material)
		require.NoError(t, err)
		raw, err := json.Marshal(suppress.Entry{Type: suppress.UserID, Scope: suppress.All,
			RequestedAt: "2026-01-01T00:00:00.000Z", Key: key.ID()})
		require.NoError(t, err)
		return key, message{Topic: event.TopicErasure, Key: []byte(key.Of(suppress.UserID, user).String()), Value: raw}
	}
	key, known := noted(1, "1")
	_, since := noted(1, "2")
	_, others := noted(2, "3")
	missing, err := Log{messages: []message{known, since}}.missing(key, []message{others, known})
	require.NoError(t, err)
	require.Len(t, missing, 1)
	require.Equal(t, since.Key, missing[0].Key)
	_, err = Log{messages: []message{known, others}}.missing(key, []message{known})
	require.ErrorIs(t, err, suppress.ErrOtherKey)
}
