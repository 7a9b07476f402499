package event

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
)

// UsageIdentityKey names the key, of the root secret, of the hashes in
// [Usage.Returned].
const UsageIdentityKey = "usage-identity-hash"

// UsageIdentityKeySize is its size in bytes.
const UsageIdentityKeySize = 32

// ReturnedHashes are the hashes that the ledger has of identities, each given as
// "<kind> <identity>": the first 16 bytes of their HMAC-SHA256.
func ReturnedHashes(key []byte, identities []string) []string {
	if len(identities) == 0 {
		return nil
	}
	out := make([]string, len(identities))
	h := hmac.New(sha256.New, key)
	for i, identity := range identities {
		h.Reset()
		h.Write([]byte(identity))
		out[i] = base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16])
	}
	return out
}
