package suppress_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/schemas/identity"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// BenchmarkRecord looks up different people's records in a set without their identifiers.
func BenchmarkRecord(b *testing.B) {
	records := make([]*record.Record, 1<<13)
	for i := range records {
		var err error
		records[i], err = record.Decode(record.KindNetworkPerson,
			fmt.Appendf(nil, `{"profile_id":"28bjj84j%d","username":"ada-lovelace-%d","full_name":"Ada Lovelace",`+
				`"headline":"Engineer","emails":["ada%d@example.com","ada.lovelace%d@example.org"],`+
				`"last_updated":"2026-01-02"}`, i, i, i, i))
		require.NoError(b, err)
	}
	for _, c := range []struct {
		n        int
		unmarked bool
	}{{1, false}, {5_000_000, false}, {5_000_000, true}} {
		set := suppress.NewSet(suppress.NoKey())
		for i := range c.n {
			t, value := suppress.Types()[i%len(suppress.Types())], "absent-"+strconv.Itoa(i)
			e := suppress.Entry{Type: t, Scope: suppress.All, RequestedAt: "2026-01-01", Key: set.Key().ID()}
			if !c.unmarked {
				e.Mark = set.Key().Mark(t, suppress.Sum(value))
			}
			raw, err := json.Marshal(e)
			require.NoError(b, err)
			require.NoError(b, set.Apply([]byte(set.Key().Of(t, value).String()), raw))
		}
		b.Run(map[bool]string{true: "unmarked-", false: "marked-"}[c.unmarked]+strconv.Itoa(c.n), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, hit := set.Record(records[i%len(records)]); hit {
					b.Fatal("is in the set")
				}
			}
		})
	}
	b.Run("subject", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			suppress.SubjectOf(records[i%len(records)])
		}
	})
	b.Run("sum", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			suppress.Sum("ada.lovelace@example.org")
		}
	})
	b.Run("mark", func(b *testing.B) {
		set, sum := suppress.NewSet(suppress.NoKey()), suppress.Sum("ada")
		require.NoError(b, set.Apply([]byte(set.Key().Of(suppress.Email, "bob").String()), fmt.Appendf(nil,
			`{"type":"email","scope":"all","requested_at":"2026","key":%q,"mark":%q}`, set.Key().ID(),
			set.Key().Mark(suppress.Email, suppress.Sum("bob")))))
		s := suppress.Subject{Platform: identity.Network, Drop: []suppress.DropValue{{Type: suppress.Email, Sum: sum}}}
		b.ReportAllocs()
		for b.Loop() {
			set.Subject(s)
		}
	})
	b.Run("hash", func(b *testing.B) {
		key := suppress.NoKey()
		b.ReportAllocs()
		for b.Loop() {
			key.Of(suppress.Email, "ada.lovelace@example.org")
		}
	})
}

// BenchmarkDocument scans documents without suppressed people.
func BenchmarkDocument(b *testing.B) {
	set := suppress.NewSet(suppress.NoKey())
	put(b, set, suppress.Email, "ada@example.com", suppress.Entry{})
	for name, text := range map[string]string{
		"person": `{"full_name":"Bob Byte","emails":["bob@example.com"],"summary":"Engineer at Acme. Write to ` +
			`bob.byte@example.org or see https://network.example/in/bob"},`,
		"addresses": `"a@b",`, "marks": `"b*é*a@é.b*c",`, "foreign": `"邮a@b请",`, "at": `"@@@@@@@@",`,
		"domains": `"é@é",`,
	} {
		raw := []byte("[" + strings.Repeat(text, 1<<20/len(text)) + "0]")
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				if _, hit := set.FindInDocument(identity.Default(), raw); hit {
					b.Fatal("is in the set")
				}
			}
		})
	}
}
