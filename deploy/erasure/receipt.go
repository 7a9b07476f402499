package erasure

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

// receiptKeyName is the name of the signing key's seed, which is derived from the root secret.
const receiptKeyName = "erasure-receipt"

// receiptVersion is the version of receipts. Version 1 has neither expiring topics nor files.
const receiptVersion = 2

// Receipt is the result of searching for the people of a request.
type Receipt struct {
	Version   int    `json:"version"`
	RequestID string `json:"request_id"`
	// RequestedAt is the time in the request, ReceivedAt when it arrived.
	RequestedAt  string    `json:"requested_at"`
	ReceivedAt   time.Time `json:"received_at"`
	Scope        string    `json:"scope"`
	State        string    `json:"state"`
	SuppressedAt time.Time `json:"suppressed_at,omitzero"`
	DeletedAt    time.Time `json:"deleted_at,omitzero"`
	// Found counts what the sweep deleted when it suppressed the request: people and identifiers found, rows of each
	// table and tombstones on each topic.
	Found map[string]int64 `json:"found,omitempty"`

	// Notified is the number of organizations that had received records of the people and are notified by webhook;
	// NotNotified that of those that have no endpoint for events.
	Notified    int `json:"organizations_notified"`
	NotNotified int `json:"organizations_without_endpoint"`

	VerifiedAt time.Time `json:"verified_at"`
	Tables     []Place   `json:"tables"`
	Topics     []Place   `json:"topics"`
	// Passing are the topics whose messages expire by age: tasks, events, deliveries, dead letters and rejected
	// records.
	Passing []Passing `json:"passing"`
	// Files are the parts of each table on disk. Remaining counts those that contain deleted rows, of any person, until
	// they are rewritten.
	Files []Place `json:"files"`
	// Kept are the suppression entries that remain in force.
	Kept             []Kept   `json:"kept"`
	NotLookedThrough []string `json:"not_looked_through"`

	PublicKey string `json:"public_key"`
	Signature string `json:"signature,omitempty"`
}

// Place is a table or a topic.
type Place struct {
	Name string `json:"name"`
	// Looked is the number of rows or messages compared, Remaining the number of those about the request's people.
	Looked    int64 `json:"looked_through"`
	Remaining int64 `json:"remaining"`
}

// Kept is a suppression entry.
type Kept struct {
	Type string `json:"type"`
	Hash string `json:"hash"`
	// From is the hash of the entry that this one is derived from.
	From string `json:"from,omitempty"`
}

// Remaining returns the number of rows and messages that remain, without those that expire.
func (r Receipt) Remaining() (n int64) {
	for _, places := range [][]Place{r.Tables, r.Topics} {
		for _, p := range places {
			n += p.Remaining
		}
	}
	return n
}

// ErrSignature reports a receipt that was changed, or signed with another key.
var ErrSignature = errors.New("invalid signature: the receipt was changed, or signed by another instance")

// ReceiptKey derives the signing key from the root secret.
func ReceiptKey(secret *service.RootSecret) (ed25519.PrivateKey, error) {
	seed, err := secret.Key(receiptKeyName, ed25519.SeedSize)
	if err != nil {
		return nil, fmt.Errorf("derive the receipt key: %w", err)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// PublicKey returns the public key of key in base64.
func PublicKey(key ed25519.PrivateKey) string {
	public, _ := key.Public().(ed25519.PublicKey)
	return base64.StdEncoding.EncodeToString(public)
}

// Sign returns the receipt as JSON, signed.
func (r Receipt) Sign(key ed25519.PrivateKey) ([]byte, error) {
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

// CheckReceipt parses a receipt and verifies its signature with a public key in the form of PublicKey. The error wraps
// [ErrSignature] if the signature is invalid.
func CheckReceipt(raw []byte, publicKey string) (Receipt, error) {
	var r Receipt
	var members map[string]jsontext.Value
	if err := json.Unmarshal(raw, &members); err != nil {
		return r, fmt.Errorf("read the receipt: %w", err)
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, fmt.Errorf("read the receipt: %w", err)
	}
	if r.Version < 1 || r.Version > receiptVersion {
		return r, fmt.Errorf("read the receipt: unsupported version %d (want 1 to %d)", r.Version, receiptVersion)
	}
	public, err := base64.StdEncoding.DecodeString(publicKey)
	if err != nil || len(public) != ed25519.PublicKeySize {
		return r, errors.New("invalid public key: want 32 bytes in base64")
	}
	// All other fields are signed, also unknown ones.
	delete(members, "signature")
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

// Hashes returns the suppression hashes that the receipt is about.
func (r Receipt) Hashes() []event.ErasureIdentifier {
	out := make([]event.ErasureIdentifier, len(r.Kept))
	for i, k := range r.Kept {
		out[i] = event.ErasureIdentifier{Type: k.Type, Hash: k.Hash}
	}
	return out
}
