package suppress_test

import (
	"crypto/aes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/schemas/identity"
	"muster/schemas/suppress"
)

// unmarked is an entry from before marks.
const unmarked = "-"

func markedTypes() []suppress.Type {
	return append(suppress.Types(), suppress.MicroblogUserID, suppress.CodehostAccount, suppress.NetworkAccount,
		suppress.MicroblogAccount,
		suppress.DropPhone, suppress.DropNDZ, suppress.DropNameVIN, suppress.DropMAID, suppress.DropCTVID)
}

// Compares marks with a plain implementation: stored ones must stay comparable.
func TestMark_IsStable(t *testing.T) {
	material := make([]byte, suppress.KeySize)
	for i := range material {
		material[i] = 7
	}
	hash := func(typ string, sum [sha256.Size]byte) []byte {
		mac := hmac.New(sha256.New, material)
		mac.Write([]byte(typ))
		mac.Write([]byte{0})
		mac.Write(sum[:])
		return mac.Sum(nil)[:16]
	}
	sum := sha256.Sum256([]byte("ada@example.com"))
	marks := map[string]suppress.Type{}
	for _, typ := range markedTypes() {
		block, err := aes.NewCipher(hash("mark "+string(typ), sha256.Sum256([]byte("key"))))
		require.NoError(t, err)
		var out [aes.BlockSize]byte
		block.Encrypt(out[:], sum[:aes.BlockSize])
		mark := key(t, 7).Mark(typ, sum)
		require.Equal(t, hex.EncodeToString(out[:4]), mark)
		require.Empty(t, marks[mark], "types have different marks")
		marks[mark] = typ
	}
	require.Empty(t, key(t, 7).Mark("name", sum))
	require.NotEqual(t, key(t, 7).Mark(suppress.Email, sum), key(t, 8).Mark(suppress.Email, sum))
}

// Reads an entry written before marks existed.
func TestEntry_WithoutMarkIsValid(t *testing.T) {
	s := suppress.NewSet(key(t, 1))
	put(t, s, suppress.Email, "bob@example.com", suppress.Entry{})
	require.NoError(t, s.Apply([]byte(s.Key().Of(suppress.Email, "ada@example.com").String()),
		fmt.Appendf(nil, `{"type":"email","scope":"all","requested_at":"2026-11-20T10:00:00Z","request_id":"er_1",`+
			`"key":%q}`, s.Key().ID())))
	for address, want := range map[string]bool{"ada@example.com": true, "bob@example.com": true,
		"eve@example.com": false} {
		require.Equal(t, want, s.Author(address), address)
	}
}

// model is a plain implementation of a set.
type model map[suppress.Type]map[string]suppress.Entry

func (m model) apply(typ suppress.Type, value string, e suppress.Entry) {
	if m[typ] == nil {
		m[typ] = map[string]suppress.Entry{}
	}
	before, known := m[typ][value]
	if !known || e.RequestedAt > before.RequestedAt || e.RequestedAt == before.RequestedAt &&
		(e.Unsuppressed || !before.Unsuppressed) {
		m[typ][value] = e
	}
}

func (m model) hit(webset suppress.Scope, typ suppress.Type, values ...string) bool {
	for _, v := range values {
		if e, ok := m[typ][v]; ok && !e.Unsuppressed && (e.Scope == suppress.All || e.Scope == webset) {
			return true
		}
	}
	return false
}

// platforms returns the types of each platform's identifiers.
func platforms() map[string]struct {
	id, username, account suppress.Type
	webset                suppress.Scope
} {
	type types = struct {
		id, username, account suppress.Type
		webset                suppress.Scope
	}
	return map[string]types{
		identity.Network:   {suppress.ProfileID, suppress.NetworkUsername, suppress.NetworkAccount, suppress.Network},
		identity.Codehost:  {suppress.UserID, suppress.CodehostUsername, suppress.CodehostAccount, suppress.Codehost},
		identity.Microblog: {suppress.MicroblogUserID, suppress.MicroblogUsername, suppress.MicroblogAccount, ""},
	}
}

// Compares sets whose entries have all, some or no marks with each other and with a model: entries of all
// types, their corrections and withdrawals in any order, and records with some of their identifiers.
func TestSet_MarksDoNotChangeResults(t *testing.T) {
	const values, entries, subjects = 400, 3000, 400
	scopes := []suppress.Scope{suppress.All, suppress.All, suppress.Network, suppress.Codehost}
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 5))
		plain := model{}
		all, some, none := suppress.NewSet(key(t, 1)), suppress.NewSet(key(t, 1)), suppress.NewSet(key(t, 1))
		types := markedTypes()
		bare := map[suppress.Type]bool{} // in some, these types have entries without marks
		for _, typ := range types {
			bare[typ] = rng.IntN(3) == 0
		}
		value := func(typ suppress.Type) string {
			if typ == suppress.Phone || typ == suppress.DropPhone {
				return "49301" + strconv.Itoa(10000+rng.IntN(values))
			}
			return "v" + strconv.Itoa(rng.IntN(values))
		}
		for range entries {
			typ := types[rng.IntN(len(types))]
			v, e := value(typ), suppress.Entry{
				Scope: scopes[rng.IntN(len(scopes))], RequestedAt: fmt.Sprintf("2026-01-%02d", 1+rng.IntN(20)),
				Unsuppressed: rng.IntN(4) == 0,
			}
			plain.apply(typ, v, e)
			put(t, all, typ, v, e)
			old := e
			old.Mark = unmarked
			put(t, none, typ, v, old)
			if bare[typ] && rng.IntN(4) == 0 {
				e = old
			}
			put(t, some, typ, v, e)
		}
		for platform, of := range platforms() {
			for range subjects {
				id, username := value(of.id), value(of.username)
				s := suppress.Subject{Platform: platform, ID: id, Username: username}
				var drop suppress.DropValue
				for range rng.IntN(3) {
					s.Emails = append(s.Emails, value(suppress.Email))
					s.Phones = append(s.Phones, value(suppress.Phone))
				}
				want := plain.hit(of.webset, of.id, id) || plain.hit(of.webset, of.username, username) ||
					plain.hit(of.webset, suppress.Email, s.Emails...) || plain.hit(of.webset, suppress.Phone,
					s.Phones...)
				if rng.IntN(2) == 0 {
					listed := value(suppress.DropMAID)
					drop = suppress.DropValue{Type: []suppress.Type{suppress.DropMAID, suppress.DropNDZ,
						suppress.DropPhone}[rng.IntN(3)], Sum: suppress.Sum(listed)}
					s.Drop = append(s.Drop, drop)
					want = want || plain.hit(of.webset, drop.Type, listed)
				}
				account := plain.hit(of.webset, of.username, username) || plain.hit(of.webset, of.account, username)
				for name, set := range map[string]*suppress.Set{"all": all, "some": some, "none": none} {
					_, hit := set.Subject(s)
					require.Equal(t, want, hit, "%s: %s %+v", name, platform, s)
					_, hit = set.Account(platform, username)
					require.Equal(t, account, hit, "%s: %s %s", name, platform, username)
					_, hit = set.ID(platform, id)
					require.Equal(t, plain.hit(of.webset, of.id, id), hit, "%s: %s %s", name, platform, id)
					for _, address := range s.Emails {
						require.Equal(t, plain.hit(suppress.Codehost, suppress.Email, address), set.Author(address),
							"%s: %s", name, address)
					}
				}
			}
		}
	}
}

// If a hash has two different marks, neither is used.
func TestSet_IgnoresConflictingMarks(t *testing.T) {
	for _, marks := range [][2]string{{"00000001", ""}, {"", "00000001"}} {
		s := suppress.NewSet(key(t, 1))
		for i, mark := range marks {
			put(t, s, suppress.UserID, "42", suppress.Entry{Mark: mark, RequestedAt: "2026-0" + strconv.Itoa(i+1)})
		}
		_, hit := s.ID(identity.Codehost, "42")
		require.True(t, hit, marks)
	}
}

// Derived entries have marks, and MarkOf returns the mark for the next entry of a hash.
func TestMarkOf_ReturnsMarkOfHash(t *testing.T) {
	s := suppress.NewSet(key(t, 1))
	put(t, s, suppress.Email, "ada@example.com", suppress.Entry{})
	by := s.Key().Of(suppress.Email, "ada@example.com")
	require.Equal(t, s.Key().Mark(suppress.Email, suppress.Sum("ada@example.com")), s.MarkOf(by))
	_, e, ok := s.Derive(identity.Network, "p1", by)
	require.True(t, ok)
	require.Equal(t, s.Key().Mark(suppress.ProfileID, suppress.Sum("p1")), e.Mark)
	_, e, ok = s.DeriveAccount(identity.Network, "ada-l", by)
	require.True(t, ok)
	require.Equal(t, s.Key().Mark(suppress.NetworkAccount, suppress.Sum("ada-l")), e.Mark)
	require.Empty(t, s.MarkOf(s.Key().Of(suppress.Email, "bob@example.com")))
}

// Concurrent lookups find an entry as soon as Apply returns, also while the set grows.
func TestApply_IsVisibleToConcurrentLookups(t *testing.T) {
	const n = 5000
	s := suppress.NewSet(key(t, 1))
	var applied atomic.Int64
	var wg sync.WaitGroup
	missed := make([]string, 2)
	for reader := range missed {
		wg.Go(func() {
			for at := int64(0); at < n && missed[reader] == ""; {
				if at >= applied.Load() {
					continue
				}
				if _, hit := s.ID(identity.Network, "p"+strconv.FormatInt(at, 10)); !hit {
					missed[reader] = "p" + strconv.FormatInt(at, 10)
				}
				at++
			}
		})
	}
	for i := range n {
		put(t, s, suppress.ProfileID, "p"+strconv.Itoa(i), suppress.Entry{})
		applied.Add(1)
	}
	wg.Wait()
	require.Equal(t, make([]string, 2), missed)
	for i := range n {
		_, hit := s.ID(identity.Network, "p"+strconv.Itoa(i))
		require.True(t, hit, i)
	}
}

// FuzzMarks applies entries of few identifiers with or without marks, and compares the set with the model after each.
func FuzzMarks(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 1, 0x84, 3})
	f.Add([]byte{5, 1, 5, 0x41, 5, 0x21, 5, 0x61, 11, 2})
	types := markedTypes()
	k := key(f, 1)
	f.Fuzz(func(t *testing.T, ops []byte) {
		s, plain := suppress.NewSet(k), model{}
		for len(ops) >= 2 {
			typ, how := types[int(ops[0])%len(types)], ops[1]
			value := "v" + strconv.Itoa(int(ops[0])/len(types)%4)
			ops = ops[2:]
			e := suppress.Entry{
				Type: typ, Key: k.ID(), Scope: []suppress.Scope{suppress.All, suppress.Network,
					suppress.Codehost}[how&3%3],
				RequestedAt: fmt.Sprintf("2026-01-%02d", 1+how>>2&7), Unsuppressed: how&0x20 != 0,
			}
			if how&0x40 == 0 {
				e.Mark = k.Mark(typ, suppress.Sum(value))
			}
			raw, err := json.Marshal(e)
			require.NoError(t, err)
			require.NoError(t, s.Apply([]byte(k.Of(typ, value).String()), raw))
			plain.apply(typ, value, e)
			for platform, of := range platforms() {
				for i := range 4 {
					v := "v" + strconv.Itoa(i)
					_, hit := s.ID(platform, v)
					require.Equal(t, plain.hit(of.webset, of.id, v), hit, "%s %s", platform, v)
					_, hit = s.Account(platform, v)
					require.Equal(t, plain.hit(of.webset, of.username, v) || plain.hit(of.webset, of.account, v), hit,
						"%s %s", platform, v)
					drop := suppress.DropValue{Type: typ, Sum: suppress.Sum(v)}
					_, hit = s.Subject(suppress.Subject{Platform: platform, Drop: []suppress.DropValue{drop}})
					require.Equal(t, plain.hit(of.webset, typ, v), hit, "%s %s %s", platform, typ, v)
				}
			}
		}
	})
}
