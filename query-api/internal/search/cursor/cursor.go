package cursor

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/klauspost/compress/flate"

	"muster/query-api/internal/jcs"
	"muster/query-api/internal/search/planner"
)

// Lifetime is how long a cursor is valid after the first page.
const Lifetime = 24 * time.Hour

// KeySize is the size of the key in bytes.
const KeySize = 32

// KeyName is the name under which the key is derived from the root secret.
const KeyName = "search-cursor"

// maxSize is the maximum size of the content of a cursor in bytes.
const maxSize = 1 << 20

// Cursor is the state of a walk.
type Cursor struct {
	// Query is the hash of the request and the organization, [Hash].
	Query []byte `json:"k"`
	// Now is the instant of the first page in milliseconds since 1970: the value of "now" in dates, and the start of
	// the lifetime.
	Now int64 `json:"n"`
	// Seed is the seed of random scores without one.
	Seed int64 `json:"r,omitempty"`
	// Total is the number of hits at the first page.
	Total int64          `json:"t"`
	Stats *planner.Stats `json:"s,omitempty"`
	// Expansions are the terms that multi-term queries expanded to.
	Expansions map[string][]string `json:"e,omitempty"`
	After      planner.Place       `json:"a"`
	// Begin reports whether the next page is the first one, as after a request for the total only. Then only Now and
	// Seed are set.
	Begin bool `json:"b,omitempty"`
}

// The errors of an invalid cursor. Their texts are shown to the caller.
var (
	ErrInvalid = errors.New("the cursor is not one of this service's: pass next_cursor of the previous answer " +
		"unchanged, or omit it to start again")
	ErrExpired = errors.New("the cursor has expired, it is valid for 24 hours: omit it to start again")
	ErrForeign = errors.New("the cursor belongs to another query: keep query and sort as on the first " +
		"page, or omit it to start again")
)

// Hash returns the hash that binds a cursor to a request, independent of the form of its JSON: white space, escapes,
// and the order of fields in query. The order of fields in sort matters, since they are keys. Numbers count as
// written, since keywords are compared with their text.
func Hash(query, sort jsontext.Value, organization string) []byte {
	numbers := []jsontext.Options{jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)}
	query, sort = query.Clone(), sort.Clone()
	// Invalid JSON is hashed as written, and rejected when it is parsed.
	_ = jcs.JSON(&query, numbers...)
	if jcs.JSON(&sort, append(numbers, jsontext.ReorderRawObjects(false))...) == nil &&
		(sort.Kind() == 'n' || string(sort) == "[]") {
		sort = nil
	}
	return hash(query, sort, []byte(organization))
}

// hash hashes parts with their lengths.
func hash(parts ...[]byte) []byte {
	h := sha256.New()
	for _, p := range parts {
		sum := sha256.Sum256(p)
		h.Write(sum[:])
	}
	return h.Sum(nil)[:16]
}

// ErrTooLarge is the error of a cursor that is too large to be decoded.
var ErrTooLarge = errors.New("the cursor is too large")

// Encode encrypts a cursor, which contains stored terms and values. It returns ErrTooLarge if it is too large.
func Encode(c Cursor, key []byte) (string, error) {
	content, err := json.Marshal(c, json.Deterministic(true))
	if err != nil {
		return "", err
	}
	if len(content) > maxSize {
		return "", ErrTooLarge
	}
	var packed bytes.Buffer
	// Stateless, since a flate.Writer would allocate half a megabyte for each cursor.
	if err := flate.StatelessDeflate(&packed, content, true, nil); err != nil {
		return "", err
	}
	seal, err := newAEAD(key)
	if err != nil {
		return "", err
	}
	sealed := seal.Seal(nil, nil, packed.Bytes(), nil) //nolint:gosec // random nonces (newAEAD)
	return base64.RawURLEncoding.EncodeToString(sealed), nil
}

// newAEAD returns the cipher of cursors. It draws a random nonce for each.
func newAEAD(key []byte) (cipher.AEAD, error) {
	derived, err := hkdf.Expand(sha256.New, key, "seal", KeySize)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// Decode decrypts a cursor for the request of want. Its errors are those of this package.
func Decode(text string, want Cursor, now time.Time, key []byte) (Cursor, error) {
	var c Cursor
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return c, ErrInvalid
	}
	seal, err := newAEAD(key)
	if err != nil {
		return c, err
	}
	packed, err := seal.Open(nil, nil, raw, nil)
	if err != nil {
		return c, ErrInvalid
	}
	content, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), maxSize))
	if err != nil {
		return c, ErrInvalid
	}
	if err := json.Unmarshal(content, &c); err != nil {
		return c, ErrInvalid
	}
	if now.Sub(time.UnixMilli(c.Now)) > Lifetime {
		return c, ErrExpired
	}
	if !bytes.Equal(c.Query, want.Query) {
		return c, ErrForeign
	}
	return c, nil
}
