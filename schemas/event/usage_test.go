package event_test

import (
	"bytes"
	"encoding/base64"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/schemas/event"
)

// FuzzUsageJSON compares the event's own encoding with that of the library.
func FuzzUsageJSON(f *testing.F) {
	f.Add("id", "org", "key", "2026-11", "charged", "plan", int64(200), int64(1), int64(1), int64(1234),
		time.Now().UnixNano(), 0, 2, 1)
	f.Add("", "", "", "", "", "", int64(0), int64(0), int64(0), int64(0), int64(0), 0, 0, 0)
	f.Add(`"quoted" \ <b>&`, "\u2028ü\x00", "\xff", "x", "y", "z", int64(-1), int64(math.MinInt64),
		int64(math.MaxInt64), int64(7), int64(1_700_000_000_000_000_000), 3600, 1, 100)
	f.Fuzz(func(t *testing.T, id, organization, key, period, outcome, plan string, status, requests, credits, took,
		at int64, zone, returned, groups int) {
		u := event.Usage{
			RequestID: id, OrganizationID: organization, KeyID: key,
			At:     time.Unix(0, at).In(time.FixedZone("", zone%86_400/60*60)),
			Period: period, Method: "POST", Endpoint: "/v1/person/enrich", Status: int(status),
			Outcome: event.Outcome(outcome), Plan: plan,
			Requests: requests, Credits: credits, DurationMicros: took,
		}
		for range min(max(returned, 0), 100) {
			u.Returned = append(u.Returned, id+period)
		}
		for range min(max(groups, 0), 100) {
			u.Groups = append(u.Groups, plan)
		}
		want, wantErr := json.Marshal(&u)
		got, err := u.AppendJSON([]byte("before"))
		require.Equal(t, wantErr == nil, err == nil, "%v, %v", wantErr, err)
		if err == nil {
			require.Equal(t, "before"+string(want), string(got))
		}
	})
}

func BenchmarkUsageJSON(b *testing.B) {
	u := event.Usage{
		RequestID: "019aa000-0000-7000-8000-000000000000", OrganizationID: "org_0123456789abcdef", KeyID: "aBcDeFgH",
		At:     time.Now().UTC(),
		Period: "2026-11", Method: "POST", Endpoint: "/v1/person/enrich", Status: 200, Outcome: event.OutcomeCharged,
		Plan:     event.PlanDefault,
		Requests: 1, Credits: 1, DurationMicros: 223_000, Returned: []string{"AAAAAAAAAAAAAAAAAAAAAA"},
		Groups: []string{"codehost"},
	}
	b.Run("own", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := u.AppendJSON(make([]byte, 0, 512))
			require.NoError(b, err)
		}
	})
	b.Run("library", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := json.Marshal(&u)
			require.NoError(b, err)
		}
	})
}

func TestDisclosureCipher_OpensWhatItSealed(t *testing.T) {
	c, err := event.NewDisclosureCipher(bytes.Repeat([]byte("k"), event.DisclosureKeySize))
	require.NoError(t, err)
	other, err := event.NewDisclosureCipher(bytes.Repeat([]byte("o"), event.DisclosureKeySize))
	require.NoError(t, err)
	d := event.Disclosure{Platform: "network", Hash: [16]byte{1, 2, 3}}
	sealed := c.Seal(d)
	require.Equal(t, sealed, c.Seal(d), "repeated events are equal")
	require.NotContains(t, sealed, base64.RawURLEncoding.EncodeToString(d.Hash[:]))
	require.NotEqual(t, sealed, other.Seal(d))
	opened, err := c.Open(sealed)
	require.NoError(t, err)
	require.Equal(t, d, opened)
	for _, bad := range []string{"", "network", "network:", "network:AAAA", "network:" + strings.Repeat("!", 22),
		sealed + "A"} {
		_, err := c.Open(bad)
		require.Error(t, err, bad)
	}
	_, err = event.NewDisclosureCipher([]byte("short"))
	require.Error(t, err)
}

// Compares with package time.
func TestPeriodOf_EqualsFormat(t *testing.T) {
	east := time.FixedZone("", 14*3600)
	for _, at := range []time.Time{
		{}, time.Date(2026, 11, 30, 23, 59, 59, 999, time.UTC), time.Date(2026, 12, 1, 13, 59, 0, 0, east),
		time.Date(2027, 1, 1, 13, 59, 0, 0, east),
		time.Date(999, 5, 1, 0, 0, 0, 0, time.UTC), time.Date(1000, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
		time.Date(12345, 6, 7, 0, 0, 0, 0, time.UTC), time.Date(2109, 10, 1, 0, 0, 0, 0, time.UTC),
	} {
		require.Equal(t, at.UTC().Format("2006-01"), event.PeriodOf(at))
	}
}
