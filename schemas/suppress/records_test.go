package suppress_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/schemas/record"
	"muster/schemas/suppress"
)

// drawn is a random record with every compared identifier as in the record.
type drawn struct {
	kind   record.Kind
	raw    map[string]any
	webset suppress.Scope
	names  map[suppress.Type][]string
}

// variant returns another spelling of an address or username.
func variant(rng *rand.Rand, v string) string {
	switch rng.IntN(5) {
	case 0:
		return strings.ToUpper(v)
	case 1:
		return " " + v + "\t"
	}
	return v
}

func drawRecord(rng *rand.Rand, few int) drawn {
	pick := func(prefix string) string { return prefix + strconv.Itoa(rng.IntN(few)) }
	some := func(prefix, suffix string) []string {
		var out []string
		for range rng.IntN(4) {
			out = append(out, variant(rng, pick(prefix)+suffix))
		}
		return out
	}
	d := drawn{raw: map[string]any{"last_updated": "2026-01-02"}, names: map[suppress.Type][]string{}}
	with := func(t suppress.Type, member string, v any, named ...string) {
		d.raw[member] = v
		d.names[t] = append(d.names[t], named...)
	}
	emails := func(members ...string) {
		for _, m := range members {
			if strings.HasSuffix(m, "s") {
				list := append(some("e", "@example.com"), some("no address ", "")...)
				with(suppress.Email, m, list, list...)
			} else if rng.IntN(2) == 0 {
				v := variant(rng, pick("e")+"@example.com")
				with(suppress.Email, m, v, v)
			}
		}
	}
	phones := func() {
		if rng.IntN(3) == 0 {
			v := fmt.Sprintf("+1 (415) 555-%04d", rng.IntN(few))
			with(suppress.Phone, "mobile_phone", v, v, strings.TrimPrefix(v, "+1 "))
			d.names[suppress.DropPhone] = append(d.names[suppress.DropPhone], suppress.DropPhoneNumber(v))
		}
		if rng.IntN(3) == 0 {
			v := pick("00000000-0000-0000-0000-0000000")
			v = v[:min(len(v), 31)] + strings.Repeat("a", max(0, 36-len(v)))
			with(suppress.DropMAID, "idfa", v, suppress.DropAdvertisingID(v))
		}
	}
	id := int64(1 + rng.IntN(few))
	number := strconv.FormatInt(id, 10)
	switch rng.IntN(6) {
	case 0:
		d.kind, d.webset = record.KindNetworkPerson, suppress.Network
		p, u := pick("p"), variant(rng, pick("u"))
		with(suppress.ProfileID, "profile_id", p, p)
		with(suppress.NetworkUsername, "username", u, u)
		emails("emails", "personal_email")
		phones()
	case 1:
		d.kind, d.webset = record.KindCodehostPerson, suppress.Codehost
		u := variant(rng, pick("u"))
		with(suppress.UserID, "user_id", id, number)
		with(suppress.CodehostUsername, "codehost_username", u, u)
		emails("emails", "personal_email", "school_email", "additional_emails")
		phones()
	case 2:
		d.kind = record.KindMicroblogPerson
		u := "@" + pick("u")
		with(suppress.MicroblogUserID, "user_id", number, number)
		with(suppress.MicroblogUsername, "username", u, u)
		phones()
	case 3:
		d.kind, d.webset = record.KindCodehostRepo, suppress.Codehost
		with(suppress.UserID, "user_id", id, number)
		d.raw["id"], d.raw["updated_at"], d.raw["full_name"] = 7, "2026-01-02", "u/r"
	case 4:
		d.kind, d.webset = record.KindCodehostCommit, suppress.Codehost
		with(suppress.UserID, "user_id", id, number)
		d.raw["sha"], d.raw["author_date"] = "ab12", "2026-01-02"
		emails("author_email")
	default:
		d.kind, d.webset = record.KindNetworkCompany, suppress.Network
		d.raw["company_id"], d.raw["name"], d.raw["emails"] = pick("p"), "C", some("e", "@example.com")
	}
	return d
}

// Looks up records of all kinds, one at a time, in batches and as subjects, in small sets with all or some
// types, and compares with a plain model.
func TestRecord_EqualsModel(t *testing.T) {
	const few, rounds, together = 40, 60, 23
	hits := 0
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 11))
		plain, set := model{}, suppress.NewSet(key(t, 1))
		types := markedTypes()
		rng.Shuffle(len(types), func(a, b int) { types[a], types[b] = types[b], types[a] })
		for _, typ := range types[:len(types)-int(seed)*3] {
			for range 6 {
				value := drawRecord(rng, few).names[typ]
				if len(value) == 0 {
					continue
				}
				e := suppress.Entry{
					Scope:       []suppress.Scope{suppress.All, suppress.Network, suppress.Codehost}[rng.IntN(3)],
					RequestedAt: "2026-01-0" + strconv.Itoa(1+rng.IntN(9)), Unsuppressed: rng.IntN(5) == 0,
				}
				if rng.IntN(8) == 0 {
					e.Mark = unmarked
				}
				form := standardForm(typ, value[0])
				if form == "" {
					continue
				}
				put(t, set, typ, form, e)
				plain.apply(typ, form, e)
			}
		}
		for range rounds {
			records := make([]*record.Record, together)
			want := make([]bool, together)
			for i := range records {
				if rng.IntN(10) == 0 {
					continue
				}
				d := drawRecord(rng, few)
				raw, err := json.Marshal(d.raw, json.Deterministic(true))
				require.NoError(t, err)
				records[i], err = record.Decode(d.kind, raw)
				require.NoError(t, err, "%s", raw)
				for typ, values := range d.names {
					for _, v := range values {
						if form := standardForm(typ, v); form != "" {
							want[i] = want[i] || plain.hit(d.webset, typ, form)
						}
					}
				}
				by, hit := set.Record(records[i])
				require.Equal(t, want[i], hit, "seed %d: %s %s", seed, d.kind, raw)
				if hit {
					hits++
				}
				if s, ok := suppress.SubjectOf(records[i]); ok {
					s.Drop = suppress.DropValues(records[i].JSON)
					h, asSubject := set.Subject(s)
					require.Equal(t, hit, asSubject)
					require.Equal(t, by, h)
				}
			}
			found := make([]suppress.Found, together)
			found[0] = suppress.Found{Hit: true} // previous contents
			together := set.Batch()
			for _, r := range records {
				together.Add(r)
			}
			together.Found(found)
			for i, r := range records {
				require.Equal(t, want[i], found[i].Hit)
				if r != nil {
					h, _ := set.Record(r)
					require.Equal(t, h, found[i].Hash)
				}
			}
		}
	}
	require.Greater(t, hits, 150)
	require.Less(t, hits, 3000)
	var none *suppress.Set
	found := []suppress.Found{{Hit: true}}
	empty := none.Batch()
	empty.Add(nil)
	empty.Found(found)
	require.False(t, found[0].Hit)
}

// standardForm returns the hashed form of an identifier, empty for invalid ones.
func standardForm(typ suppress.Type, v string) string {
	switch typ {
	case suppress.DropPhone, suppress.DropMAID:
		return v
	}
	form, err := suppress.Normalize(typ, v)
	if err != nil {
		return ""
	}
	return form
}
