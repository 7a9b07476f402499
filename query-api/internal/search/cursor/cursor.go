package cursor

import (
	"bytes"
	"compress/flate"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/query-api/internal/search/planner"
)

// Lifetime is how long a cursor is valid after the first page.
const Lifetime = 24 * time.Hour

// KeySize is the size of the signing key in bytes.
const KeySize = 32

// KeyName is the name under which the signing key derives from the root secret.
const KeyName = "search-cursor"

// maxSize bounds the content of a cursor in bytes.
const maxSize = 1 << 20

// Cursor is what is carried from page to page.
type Cursor struct {
	// Query is the hash of what was asked for and who asks, [Hash].
	Query []byte `json:"k"`
	// Text is the same of query and sort as they were written: replicas and cursors of the
	// version before know no other.
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
}

// Reasons why a cursor is refused. Their texts are meant for the caller.
var (
	ErrInvalid = errors.New("the cursor is not one of this service's: pass next_cursor of the previous answer unchanged, or leave it out to begin anew")
	ErrExpired = errors.New("the cursor has expired, they live for 24 hours: leave it out to begin anew")
	ErrForeign = errors.New("the cursor belongs to another query: keep query and sort as they were on the first page, or leave it out to begin anew")
)

// Hash is what binds a cursor to a query, however its JSON is written: with other white
// space and escapes, and the members of query in another order. Those of sort are keys,
// whose order counts. Numbers count as they are written, as they do where a keyword is
// compared with them.
func Hash(query, sort jsontext.Value, organization string) []byte {
	numbers := []jsontext.Options{jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)}
	query, sort = query.Clone(), sort.Clone()
	// What is no JSON stays as it is, and is refused where it is read.
	_ = query.Canonicalize(numbers...)
	if sort.Canonicalize(append(numbers, jsontext.ReorderRawObjects(false))...) == nil && (sort.Kind() == 'n' || string(sort) == "[]") {
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

// Encode signs a cursor. The error may be ErrTooLarge.
func Encode(c Cursor, key []byte) (string, error) {
	content, err := json.Marshal(c, json.Deterministic(true))
	if err != nil {
		return "", err
	}
	if len(content) > maxSize {
		return "", ErrTooLarge
	}
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestSpeed)
	if err != nil {
		return "", err
	}
	if _, err := w.Write(content); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(append(sign(packed.Bytes(), key), packed.Bytes()...)), nil
}

func sign(content, key []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(content)
	return mac.Sum(nil)[:16]
}

// Decode reads a cursor at an instant for the query of a new one. The error is one of
// those of this package.
func Decode(text string, of Cursor, now time.Time, key []byte) (Cursor, error) {
	var c Cursor
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) < 16 {
		return c, ErrInvalid
	}
	if !hmac.Equal(raw[:16], sign(raw[16:], key)) {
		return c, ErrInvalid
	}
	content, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(raw[16:])), maxSize))
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
	c.Query, c.Text = of.Query, of.Text // the next page's, which another replica may read
	return c, nil
}
