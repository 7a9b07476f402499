package suppress

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"muster/schemas/record"
)

// Requested is an identifier of an erasure request, hashed.
type Requested struct {
	Type Type
	Hash Hash
	Mark string
}

// Request hashes the identifiers of an erasure request. It returns an error if one is invalid; NoKey suffices to
// validate a request.
func (k *Key) Request(request *record.Erasure) ([]Requested, *record.ValidationError) {
	out := make([]Requested, len(request.Identifiers))
	for at, i := range request.Identifiers {
		invalid := func(field, reason string) *record.ValidationError {
			return &record.ValidationError{
				Kind: record.KindErasure, Code: record.CodeBadIdentity,
				Path: fmt.Sprintf("identifiers[%d].%s", at, field), Reason: reason,
			}
		}
		t := Type(i.Type)
		var sum [sha256.Size]byte
		if i.SHA256 != "" {
			if _, err := hex.Decode(sum[:], []byte(i.SHA256)); err != nil { // Validated by the record schema.
				return nil, invalid("sha256", "is not a SHA-256")
			}
		} else {
			normalized, err := Normalize(t, string(i.Value))
			if err != nil {
				return nil, invalid("value", err.Error())
			}
			sum = Sum(normalized)
		}
		out[at] = Requested{t, k.Hash(t, sum), k.Mark(t, sum)}
	}
	return out, nil
}
