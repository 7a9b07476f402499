package event_test

import (
	"crypto/hmac"
	"crypto/sha256"
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

// Hashes are plain HMACs, independent of earlier calls.
func TestReturnedHashes_EqualHMAC(t *testing.T) {
	key := []byte("0123456789abcdef0123456789abcdef")
	many := event.NewIdentityHasher(key)
	for _, identities := range [][]string{nil, {"codehost-person 7"}, {"codehost-person 8", "network-person ü", ""},
		{strings.Repeat("x", 1000)}} {
		var want []string
		for _, identity := range identities {
			mac := hmac.New(sha256.New, key)
			mac.Write([]byte(identity))
			want = append(want, base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16]))
		}
		for range 2 {
			require.Equal(t, want, many.Hashes(identities))
		}
		require.Equal(t, want, event.ReturnedHashes(key, identities))
	}
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
