package event

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"sync"
)

// UsageIdentityKey is the name, for key derivation, of the key of the hashes in [Usage.Returned].
const UsageIdentityKey = "usage-identity-hash"

// UsageIdentityKeySize is the key size in bytes.
const UsageIdentityKeySize = 32

// returnedBytes is the size of a hash: a truncated HMAC-SHA256.
const returnedBytes = 16

// IdentityHasher computes the keyed hashes of returned identities for the ledger. It reuses the HMAC state after
// the key block, which is most of the work for short texts. It is safe for concurrent use.
type IdentityHasher struct{ states sync.Pool }

// returnedState is used by one goroutine at a time.
type returnedState struct {
	mac     hash.Hash
	text    []byte
	sum     []byte
	encoded []byte
}

// NewIdentityHasher returns an IdentityHasher. It does not copy key.
func NewIdentityHasher(key []byte) *IdentityHasher {
	return &IdentityHasher{states: sync.Pool{New: func() any { return &returnedState{mac: hmac.New(sha256.New, key)} }}}
}

// Hashes returns the hashes of identities, each given as "<kind> <identity>": the first 16 bytes of the
// HMAC-SHA256.
func (r *IdentityHasher) Hashes(identities []string) []string {
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

// ReturnedHashes returns the hashes of identities under a key; see [IdentityHasher.Hashes].
func ReturnedHashes(key []byte, identities []string) []string {
	return NewIdentityHasher(key).Hashes(identities)
}
