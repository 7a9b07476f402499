package receipt

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/platform/service"
	"muster/schemas/event"
)

// keyName names the seed of the signing key, of the root secret.
const keyName = "erasure-receipt"

// formatVersion is the version of receipts. Those of version 1 say nothing of what
// passes, nor of files.
const formatVersion = 2

// Receipt says what is left of a request's people.
type Receipt struct {
	Version   int    `json:"version"`
	RequestID string `json:"request_id"`
	// RequestedAt is what the request gave, ReceivedAt when it came.
	RequestedAt string    `json:"requested_at"`
	ReceivedAt  time.Time `json:"received_at"`
	Scope       string    `json:"scope"`
	State       string    `json:"state"`
	MaskedAt    time.Time `json:"masked_at,omitzero"`
	RemovedAt   time.Time `json:"removed_at,omitzero"`
	// Found counts what the sweep that masked the request has removed: whom and what it
	// found, and the rows of each table and tombstones on each topic.
	Found map[string]int64 `json:"found,omitempty"`

	VerifiedAt time.Time `json:"verified_at"`
	Tables     []Place   `json:"tables"`
	Topics     []Place   `json:"topics"`
	// Passing are topics whose messages go by their age: tasks, events, deliveries and
	// letters.
	Passing []Passing `json:"passing"`
	// Files are the parts of each table on disk; Remaining of them hold rows that were
	// deleted, of whomever, until they are rewritten.
	Files []Place `json:"files"`
	// Kept are the entries of the suppression set that remain, to keep the person out.
	Kept             []Kept   `json:"kept"`
	NotLookedThrough []string `json:"not_looked_through"`

	PublicKey string `json:"public_key"`
	Signature string `json:"signature,omitempty"`
}

// Place is a table or a topic.
type Place struct {
	Name string `json:"name"`
	// Looked is how many rows or messages were compared, Remaining how many of them are
	// of the request's people.
	Looked    int64 `json:"looked_through"`
	Remaining int64 `json:"remaining"`
}

// Kept is an entry of the suppression set.
type Kept struct {
	Type string `json:"type"`
	Hash string `json:"hash"`
	// From is the hash of the entry that this one follows from.
	From string `json:"from,omitempty"`
}

// Remaining is how many rows and messages are left, but for those that pass.
func (r *Receipt) Remaining() (n int64) {
	for _, places := range [][]Place{r.Tables, r.Topics} {
		for _, p := range places {
			n += p.Remaining
		}
	}
	return n
}

// ErrSignature says that a receipt is not what was signed, or not by this key.
var ErrSignature = errors.New("the signature does not fit: the receipt was changed, or signed by another instance")

// Key derives the signing key.
func Key(secret *service.RootSecret) (ed25519.PrivateKey, error) {
	seed, err := secret.Key(keyName, ed25519.SeedSize)
	if err != nil {
		return nil, fmt.Errorf("key of receipts: %w", err)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// PublicKey is how the public key of a key is written.
func PublicKey(key ed25519.PrivateKey) string {
	public, _ := key.Public().(ed25519.PublicKey)
	return base64.StdEncoding.EncodeToString(public)
}

// Sign returns the receipt as JSON, signed.
func Sign(r Receipt, key ed25519.PrivateKey) ([]byte, error) {
	r.PublicKey, r.Signature = PublicKey(key), ""
	raw, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("write the receipt: %w", err)
	}
	message := jsontext.Value(raw)
	if err := message.Canonicalize(); err != nil {
		return nil, fmt.Errorf("write the receipt: %w", err)
	}
	r.Signature = base64.StdEncoding.EncodeToString(ed25519.Sign(key, message))
	out, err := json.Marshal(r, jsontext.WithIndent("  "))
	if err != nil {
		return nil, fmt.Errorf("write the receipt: %w", err)
	}
	return append(out, '\n'), nil
}

// Check reads a receipt that must be signed by the holder of a public key, as
// PublicKey writes it. The error wraps [ErrSignature] when it is not.
func Check(raw []byte, publicKey string) (Receipt, error) {
	var r Receipt
	var members map[string]jsontext.Value
	if err := json.Unmarshal(raw, &members); err != nil {
		return r, fmt.Errorf("read the receipt: %w", err)
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, fmt.Errorf("read the receipt: %w", err)
	}
	if r.Version < 1 || r.Version > formatVersion {
		return r, fmt.Errorf("read the receipt: version %d is none of 1 to %d", r.Version, formatVersion)
	}
	public, err := base64.StdEncoding.DecodeString(publicKey)
	if err != nil || len(public) != ed25519.PublicKeySize {
		return r, errors.New("the public key is not 32 bytes in base64")
	}
	delete(members, "signature") // all others are signed, also ones that are not known here
	signed, err := json.Marshal(members)
	if err != nil {
		return r, fmt.Errorf("read the receipt: %w", err)
	}
	message := jsontext.Value(bytes.TrimSpace(signed))
	if err := message.Canonicalize(); err != nil {
		return r, fmt.Errorf("read the receipt: %w", err)
	}
	signature, err := base64.StdEncoding.DecodeString(r.Signature)
	if err != nil || r.PublicKey != publicKey || !ed25519.Verify(public, message, signature) {
		return r, ErrSignature
	}
	return r, nil
}

// Hashes are the suppression hashes that the receipt is about.
func (r *Receipt) Hashes() []event.ErasureIdentifier {
	out := make([]event.ErasureIdentifier, len(r.Kept))
	for i, k := range r.Kept {
		out[i] = event.ErasureIdentifier{Type: k.Type, Hash: k.Hash}
	}
	return out
}
