package event

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
)

// An API key is "mk_live_", 8 characters of public id, "_", 32 characters of secret and 6 of checksum
// (rulings.md, Accounts). Characters are base62. The checksum is the IEEE CRC-32 of everything before it, in
// base62 with leading zeros: it detects mistyped keys without a lookup.
const (
	keyStart       = "mk_live_"
	publicLength   = 8
	secretLength   = 32
	checksumLength = 6
	keyLength      = len(keyStart) + publicLength + 1 + secretLength + checksumLength

	base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// Errors of [ParseAPIKey]. They do not contain the key.
var (
	ErrKeyForm     = errors.New("not an API key: must be mk_live_ followed by 8 characters, _ and 38 characters")
	ErrKeyChecksum = errors.New("API key with a wrong checksum: it was mistyped or truncated")
)

// APIKey is a complete, well-formed API key, including the secret. It formats as its public part, so that it
// is not logged by mistake.
type APIKey struct{ text string }

// GenerateAPIKey returns a new key. random must be a cryptographic source such as crypto/rand.Reader.
func GenerateAPIKey(random io.Reader) (APIKey, error) {
	chars, err := randomBase62(random, publicLength+secretLength)
	if err != nil {
		return APIKey{}, fmt.Errorf("generate API key: %w", err)
	}
	text := keyStart + chars[:publicLength] + "_" + chars[publicLength:]
	return APIKey{text: text + checksum(text)}, nil
}

// ParseAPIKey checks form and checksum.
func ParseAPIKey(s string) (APIKey, error) {
	if len(s) != keyLength || !strings.HasPrefix(s, keyStart) {
		return APIKey{}, ErrKeyForm
	}
	rest := s[len(keyStart):]
	if rest[publicLength] != '_' || !isBase62(rest[:publicLength]) || !isBase62(rest[publicLength+1:]) {
		return APIKey{}, ErrKeyForm
	}
	cut := keyLength - checksumLength
	if subtle.ConstantTimeCompare([]byte(checksum(s[:cut])), []byte(s[cut:])) != 1 {
		return APIKey{}, ErrKeyChecksum
	}
	return APIKey{text: s}, nil
}

// ID returns the public part, the key of lookups.
func (k APIKey) ID() string {
	if k.text == "" {
		return ""
	}
	return k.text[len(keyStart) : len(keyStart)+publicLength]
}

// Hash returns the SHA-256 of the complete key in lower-case hex, which is stored. The secret has 190 random
// bits, so a plain hash suffices.
func (k APIKey) Hash() string {
	sum := sha256.Sum256([]byte(k.text))
	return hex.EncodeToString(sum[:])
}

// Matches reports, in constant time, whether storedHash is the hash of this key.
func (k APIKey) Matches(storedHash string) bool {
	return subtle.ConstantTimeCompare([]byte(k.Hash()), []byte(storedHash)) == 1
}

// Reveal returns the complete key, including the secret, to be displayed once.
func (k APIKey) Reveal() string { return k.text }

// String returns the public part.
func (k APIKey) String() string { return keyStart + k.ID() + "_..." }

// GoString returns the public part.
func (k APIKey) GoString() string { return k.String() }

// RedactAPIKeys replaces the secret of each key in a text, also of a truncated key, by "...".
func RedactAPIKeys(text string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, keyStart)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteString(keyStart)
		if len(rest) > publicLength && rest[publicLength] == '_' && isBase62(rest[:publicLength]) {
			b.WriteString(rest[:publicLength] + "_...")
			rest = strings.TrimLeft(rest[publicLength+1:], base62)
		}
		text = rest
	}
}

func checksum(text string) string {
	sum := crc32.ChecksumIEEE([]byte(text))
	var out [checksumLength]byte
	for i := checksumLength - 1; i >= 0; i-- {
		out[i] = base62[sum%62]
		sum /= 62
	}
	return string(out[:])
}

// randomBase62 draws characters without bias: bytes of 248 and above are drawn again.
func randomBase62(random io.Reader, n int) (string, error) {
	out := make([]byte, 0, n)
	buf := make([]byte, n)
	for len(out) < n {
		if _, err := io.ReadFull(random, buf); err != nil {
			return "", err
		}
		for _, b := range buf {
			if b < 248 && len(out) < n {
				out = append(out, base62[b%62])
			}
		}
	}
	return string(out), nil
}

func isBase62(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

func isSHA256(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size && s == strings.ToLower(s)
}
