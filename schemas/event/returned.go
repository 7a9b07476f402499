package event

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"sync"
)

// UsageIdentityKey names the key, of the root secret, of the hashes in
// [Usage.Returned].
const UsageIdentityKey = "usage-identity-hash"

// UsageIdentityKeySize is its size in bytes.
const UsageIdentityKeySize = 32

// returnedBytes is how much of an HMAC-SHA256 a hash has.
const returnedBytes = 16

// Returned makes the hashes that the ledger has of identities. It keeps the state that
// an HMAC has once it has read its key, which is most of the work on a short text. It is
// safe for concurrent use.
type Returned struct{ states sync.Pool }

// returnedState is used by one goroutine at a time.
type returnedState struct {
	mac     hash.Hash
	text    []byte
	sum     []byte
	encoded []byte
}

// NewReturned returns a Returned with a key, which is not copied.
func NewReturned(key []byte) *Returned {
	return &Returned{states: sync.Pool{New: func() any { return &returnedState{mac: hmac.New(sha256.New, key)} }}}
}

// Hashes are those of identities, each given as "<kind> <identity>": the first 16 bytes of
// their HMAC-SHA256.
func (r *Returned) Hashes(identities []string) []string {
	if len(identities) == 0 {
		return nil
	}
	s, _ := r.states.Get().(*returnedState)
	defer r.states.Put(s)
	out := make([]string, len(identities))
	for i, identity := range identities {
		s.mac.Reset()
		s.text = append(s.text[:0], identity...)
		s.mac.Write(s.text)
		s.sum = s.mac.Sum(s.sum[:0])
		s.encoded = base64.RawURLEncoding.AppendEncode(s.encoded[:0], s.sum[:returnedBytes])
		out[i] = string(s.encoded)
	}
	return out
}

// ReturnedHashes are the hashes of identities under a key; see [Returned.Hashes].
func ReturnedHashes(key []byte, identities []string) []string {
	return NewReturned(key).Hashes(identities)
}
