package cursor

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
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

// KeyName is the name under which the key derives from the root secret.
const KeyName = "search-cursor"

// maxSize bounds the content of a cursor in bytes.
const maxSize = 1 << 20

// Cursor is what is carried from page to page.
type Cursor struct {
	// Query is the hash of what was asked for and who asks, [Hash].
	Query []byte `json:"k"`
	// Text is the same of query and sort as they were written: cursors of before know no other.
	Text []byte `json:"q"`
	// Now is the instant of the first page, which "now" in dates means and from
	// which the lifetime counts; in milliseconds since 1970.
	Now int64 `json:"n"`
	// Seed is that of random scores without one of their own.
	Seed int64 `json:"r,omitempty"`
	// Total is the number of matches at the first page.
	Total int64          `json:"t"`
	Stats *planner.Stats `json:"s,omitempty"`
	// Expansions are the terms that fuzzy and unfinished terms became.
	Expansions map[string][]string `json:"e,omitempty"`
	After      planner.Place       `json:"a"`
	// Begin: the first page is still to come, as after a call for the total alone. Only Now and Seed of the
	// walk are fixed.
	Begin bool `json:"b,omitempty"`
}

// Reasons why a cursor is refused. Their texts are meant for the caller.
var (
	ErrInvalid = errors.New("the cursor is not one of this service's: pass next_cursor of the previous answer " +
		"unchanged, or leave it out to begin anew")
	ErrExpired = errors.New("the cursor has expired, they live for 24 hours: leave it out to begin anew")
	ErrForeign = errors.New("the cursor belongs to another query: keep query and sort as they were on the first " +
		"page, or leave it out to begin anew")
)

// Hash is what binds a cursor to a query, however its JSON is written: with other white
// space and escapes, and the members of query in another order. Those of sort are keys,
// whose order counts. Numbers count as they are written, as they do where a keyword is
// compared with them.
func Hash(query, sort jsontext.Value, organization string) []byte {
	numbers := []jsontext.Options{jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)}
	query, sort = query.Clone(), sort.Clone()
	// What is no JSON, or nested too deep, stays as it is, and is refused where it is read.
	_ = jcs.JSON(&query, numbers...)
	if jcs.JSON(&sort, append(numbers, jsontext.ReorderRawObjects(false))...) == nil &&
		(sort.Kind() == 'n' || string(sort) == "[]") {
		sort = nil
	}
	return TextHash(query, sort, organization)
}

// TextHash is what binds a cursor to a query as it is written.
func TextHash(query, sort jsontext.Value, organization string) []byte {
	return hash(query, sort, []byte(organization))
}

// hash is that of the parts, told apart.
func hash(parts ...[]byte) []byte {
	h := sha256.New()
	for _, p := range parts {
		sum := sha256.Sum256(p)
		h.Write(sum[:])
	}
	return h.Sum(nil)[:16]
}

// ErrTooLarge is the error of a cursor that could not be read again.
var ErrTooLarge = errors.New("the cursor is too large")

// Encode seals a cursor: nobody can change it, nor read the stored terms and values in it. The error may be ErrTooLarge.
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
	seal, err := sealing(key)
	if err != nil {
		return "", err
	}
	sealed := seal.Seal(nil, nil, packed.Bytes(), nil) //nolint:gosec // it draws its nonces itself (sealing)
	return base64.RawURLEncoding.EncodeToString(sealed), nil
}

// sealing is what cursors are sealed with.
func sealing(key []byte) (cipher.AEAD, error) {
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

// signed is the content of a cursor of before cursors were sealed: 16 bytes that sign it stand in front. There are such
// cursors for a lifetime after the last replica that made them.
func signed(raw, key []byte) ([]byte, bool) {
	if len(raw) < 16 {
		return nil, false
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(raw[16:])
	return raw[16:], hmac.Equal(raw[:16], mac.Sum(nil)[:16])
}

// Decode reads a cursor at an instant for the query of a new one. What is wrong with it is
// one of the errors of this package.
func Decode(text string, of Cursor, now time.Time, key []byte) (Cursor, error) {
	var c Cursor
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return c, ErrInvalid
	}
	seal, err := sealing(key)
	if err != nil {
		return c, err
	}
	packed, err := seal.Open(nil, nil, raw, nil)
	if err != nil {
		var ok bool
		if packed, ok = signed(raw, key); !ok {
			return c, ErrInvalid
		}
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
	if !bytes.Equal(c.Query, of.Query) && !bytes.Equal(c.Text, of.Text) {
		return c, ErrForeign
	}
	c.Query, c.Text = of.Query, of.Text // the next page's
	return c, nil
}
