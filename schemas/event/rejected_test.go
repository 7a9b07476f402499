package event_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/schemas/event"
	"muster/schemas/record"
)

func TestRejected_SurvivesEncoding(t *testing.T) {
	raw := []byte("{\"profile_id\":\"\xff\"}")
	_, err := record.Decode(record.KindNetworkPerson, raw)
	require.Error(t, err)
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.FixedZone("x", 3600))
	source := event.Source{Run: "r1", File: "people.ndjson", Line: 17, Offset: 4096}
	r := event.NewRejected(record.KindNetworkPerson, source, raw, err, at)
	require.Equal(t, record.CodeBadUTF8, r.Code)
	require.Equal(t, "profile_id", r.Path)
	require.Equal(t, time.UTC, r.At.Location())
	require.Equal(t, int64(len(raw)), r.Length)
	require.Equal(t, "people.ndjson:17", r.Source.String())
	require.Equal(t, "people.ndjson", r.Source.Name())

	encoded, err := json.Marshal(r)
	require.NoError(t, err)
	var back event.Rejected
	require.NoError(t, json.Unmarshal(encoded, &back))
	require.Equal(t, r, back, "any bytes survive")

	message := event.Source{Topic: "muster.record.network-person.v1", Partition: 3, Offset: 42}
	require.Equal(t, "muster.record.network-person.v1/3@42", message.String())
	require.Equal(t, message.Topic, message.Name())
	other := event.NewRejected(record.KindNetworkPerson, message, raw, errors.New("boom"), at)
	require.Equal(t, event.CodeFailed, other.Code)
	require.Equal(t, "boom", other.Reason)
}

func TestRejected_TruncatesTooLargeRecord(t *testing.T) {
	raw := bytes.Repeat([]byte("x"), record.MaxSize+1)
	_, err := record.Decode(record.KindNetworkPerson, raw)
	require.Error(t, err)
	r := event.NewRejected(record.KindNetworkPerson, event.Source{File: "f", Line: 1}, raw, err, time.Now())
	require.Equal(t, record.CodeTooLarge, r.Code)
	require.Len(t, r.Raw, event.MaxRejectedRaw)
	require.Equal(t, int64(len(raw)), r.Length)
	sum := sha256.Sum256(raw)
	require.Equal(t, hex.EncodeToString(sum[:]), r.SHA256)

	whole := event.NewRejected(record.KindNetworkPerson, event.Source{File: "f", Line: 1}, raw[:record.MaxSize], err,
		time.Now())
	require.Len(t, whole.Raw, record.MaxSize)

	part := event.NewRejectedPart(record.KindNetworkPerson, event.Source{File: "f"}, raw[:100_000], "ab", 5<<20, err,
		time.Now())
	require.Len(t, part.Raw, event.MaxRejectedRaw)
	require.Equal(t, int64(5<<20), part.Length)
	require.Equal(t, "ab", part.SHA256)
}
