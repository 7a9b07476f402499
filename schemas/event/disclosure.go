package event

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// DisclosureKeyName is the name, for derivation from the root secret, of the key of a [DisclosureCipher];
// DisclosureKeySize is its size in bytes.
const (
	DisclosureKeyName = "disclosures"
	DisclosureKeySize = 32
)

// Disclosure is a person whose record was returned: the platform of the record, and the hash by which it is suppressed
// by its id (package suppress).
type Disclosure struct {
	Platform string
	Hash     [aes.BlockSize]byte
}

// DisclosureCipher encrypts disclosures for [Usage.Returned]. The ledger is retained without limit: without the key,
// its entries cannot be compared with the hashes of erased people on TopicErasure. It is safe for concurrent use.
type DisclosureCipher struct{ block cipher.Block }

// NewDisclosureCipher returns a DisclosureCipher.
func NewDisclosureCipher(key []byte) (*DisclosureCipher, error) {
	if len(key) != DisclosureKeySize {
		return nil, fmt.Errorf("disclosures: a key of %d bytes, want %d", len(key), DisclosureKeySize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("disclosures: %w", err)
	}
	return &DisclosureCipher{block}, nil
}

// Seal returns a disclosure as text: the platform, a colon and the encrypted hash. The hash is one block, so equal
// disclosures have equal results.
func (c *DisclosureCipher) Seal(d Disclosure) string {
	c.block.Encrypt(d.Hash[:], d.Hash[:])
	return d.Platform + ":" + base64.RawURLEncoding.EncodeToString(d.Hash[:])
}

// Open returns the disclosure that Seal encrypted.
func (c *DisclosureCipher) Open(sealed string) (d Disclosure, err error) {
	platform, text, _ := strings.Cut(sealed, ":")
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != len(d.Hash) {
		return d, errors.New("disclosures: not a sealed disclosure")
	}
	d.Platform = platform
	c.block.Decrypt(d.Hash[:], raw)
	return d, nil
}
