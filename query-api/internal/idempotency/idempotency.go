package idempotency

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/query-api/internal/jcs"
)

// TTL is the lifetime of a stored response.
const TTL = 24 * time.Hour

// State is the state of a call in a store.
type State int

// States.
const (
	New      State = iota // claimed by the caller of Begin
	Running               // claimed by another call
	Stored                // the response is stored
	Mismatch              // the key was used with another body
)

// Store stores claims and responses by name. It is safe for concurrent use.
type Store interface {
	// Begin claims a name for an owner, unless another owner has claimed it or a response is stored. The claim expires
	// with the lease. value is the response for state Stored.
	Begin(ctx context.Context, name, fingerprint, owner string, lease time.Duration) (state State, value []byte,
		err error)
	// Renew extends a claim by another lease from now. It does nothing if the claim has ended or is completed.
	Renew(ctx context.Context, name, owner string, lease time.Duration) error
	// Complete stores a response under a claimed name. It does nothing if the claim has ended.
	Complete(ctx context.Context, name, owner string, value []byte, ttl time.Duration) error
	// Delete ends an owner's claim, or deletes the response that it has stored.
	Delete(ctx context.Context, name, owner string) error
	// DeleteUnserved is Delete, except for a response that Begin has returned: that is kept, and served is true.
	DeleteUnserved(ctx context.Context, name, owner string) (served bool, err error)
}

// Answer is a stored response.
type Answer struct {
	Status      int    `json:"status"`
	ContentType string `json:"content_type"`
	Body        []byte `json:"-"`
	// Identities are the records in the response, as "<kind> <identity>".
	Identities []string `json:"identities,omitempty"`
	// Endpoint is the path of the call. Accounts are other accounts named in the response, as "<platform> <comparison
	// form of the username>".
	Endpoint string   `json:"endpoint,omitempty"`
	Accounts []string `json:"accounts,omitempty"`
	// Identifiers are the identifiers of the people in the response, by which they may be erased: "<platform> id <id>",
	// "<platform> username <comparison form>" and "<platform> email <comparison form>".
	Identifiers []string `json:"identifiers,omitempty"`
	// Header has the additional response headers to store.
	Header map[string]string `json:"header,omitempty"`

	owner string // set for stored responses
}

// header precedes the body of a stored response, with its length in 4 bytes before it.
type header struct {
	Owner string `json:"owner"`
	Answer
}

// Answers stores responses, encrypted, in a store.
type Answers struct {
	store Store
	key   []byte // hash key of names and fingerprints
	seal  cipher.AEAD
}

// KeyBytes is the size of the key that NewAnswers needs.
const KeyBytes = 64

// NewAnswers returns Answers that hash and encrypt with key, which must be the same for all replicas.
func NewAnswers(store Store, key []byte) (*Answers, error) {
	if len(key) != KeyBytes {
		return nil, fmt.Errorf("idempotency: invalid key size: %d bytes, want %d", len(key), KeyBytes)
	}
	block, err := aes.NewCipher(key[:32])
	if err != nil {
		return nil, fmt.Errorf("idempotency: %w", err)
	}
	seal, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("idempotency: %w", err)
	}
	return &Answers{store: store, key: key[32:], seal: seal}, nil
}

// Call is a call with an Idempotency-Key.
type Call struct {
	Organization, Method, Path, Key string
	// Part distinguishes several values stored under one key; empty is the response.
	Part string
	Body []byte
	// Owner identifies this attempt.
	Owner string
	Lease time.Duration
	// Erased, if set, reports whether a stored response must not be returned again. It is then deleted, and the call is
	// a new one.
	Erased func(Answer) bool
}

// Claim is the claim of a running call.
type Claim struct {
	answers *Answers
	name    string
	owner   string
}

// Begin claims a call. For New it returns a claim, which must be completed or released. For Stored it returns the
// response, and a claim that only its owner may use. After an error the call may be claimed nevertheless, so the claim
// must be released, too.
func (a *Answers) Begin(ctx context.Context, c Call) (State, Answer, Claim, error) {
	parts := []string{"name 2", c.Organization, c.Method, c.Path, c.Key}
	if c.Part != "" {
		parts = append(parts, c.Part)
	}
	name := a.hash(parts...)
	body := jsontext.Value(append([]byte(nil), c.Body...))
	// Integers are not canonicalized: floating point does not distinguish all integers beyond 2^53.
	if jcs.JSON(&body, jsontext.CanonicalizeRawInts(false)) != nil {
		body = c.Body
	}
	claim := Claim{answers: a, name: name, owner: c.Owner}
	state, value, err := a.store.Begin(ctx, name, a.hash("body", string(body)), c.Owner, c.Lease)
	if err != nil {
		return 0, Answer{}, claim, fmt.Errorf("idempotency: %w", err)
	}
	if state != Stored {
		return state, Answer{}, claim, nil
	}
	answer, err := a.open(name, value)
	owner := answer.owner
	answer.owner = ""
	if err != nil || c.Erased == nil || !c.Erased(answer) {
		return state, answer, claim, err
	}
	if err := a.store.Delete(ctx, name, owner); err != nil {
		return 0, Answer{}, claim, fmt.Errorf("idempotency: %w", err)
	}
	return a.Begin(ctx, c)
}

// Renew extends the claim by another lease from now.
func (c Claim) Renew(ctx context.Context, lease time.Duration) error {
	if err := c.answers.store.Renew(ctx, c.name, c.owner, lease); err != nil {
		return fmt.Errorf("idempotency: %w", err)
	}
	return nil
}

// Complete stores the response.
func (c Claim) Complete(ctx context.Context, answer Answer) error {
	value, err := c.answers.encrypt(c.name, c.owner, answer)
	if err == nil {
		err = c.answers.store.Complete(ctx, c.name, c.owner, value, TTL)
	}
	if err != nil {
		return fmt.Errorf("idempotency: %w", err)
	}
	return nil
}

// Release lets the call be made again, even if its response is stored, unless it was returned to another call: then it
// is kept, and served is true.
func (c Claim) Release(ctx context.Context) (served bool, err error) {
	if served, err = c.answers.store.DeleteUnserved(ctx, c.name, c.owner); err != nil {
		return false, fmt.Errorf("idempotency: %w", err)
	}
	return served, nil
}

// Purge deletes the stored responses that must not be returned again, if the store can enumerate its responses.
// Otherwise they are deleted when they are requested.
func (a *Answers) Purge(ctx context.Context, erased func(Answer) bool) error {
	all, ok := a.store.(interface {
		Each(ctx context.Context, f func(name string, value []byte) error) error
	})
	if !ok {
		return nil
	}
	err := all.Each(ctx, func(name string, value []byte) error {
		answer, err := a.open(name, value)
		if err != nil {
			return nil //nolint:nilerr // encrypted with another root secret: never returned
		}
		owner := answer.owner
		answer.owner = ""
		if !erased(answer) {
			return nil
		}
		return a.store.Delete(ctx, name, owner)
	})
	if err != nil {
		return fmt.Errorf("idempotency: %w", err)
	}
	return nil
}

// hash returns a keyed hash of parts, each prefixed with its length so that the encoding is unambiguous.
func (a *Answers) hash(parts ...string) string {
	h := hmac.New(sha256.New, a.key)
	for _, p := range parts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
		h.Write([]byte(p))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// encrypt encrypts a response, bound to its name.
func (a *Answers) encrypt(name, owner string, answer Answer) ([]byte, error) {
	nonce := make([]byte, a.seal.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	head, err := json.Marshal(header{owner, answer}, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	plain := binary.BigEndian.AppendUint32(nil, uint32(len(head))) //nolint:gosec // far smaller
	plain = append(append(plain, head...), answer.Body...)
	return a.seal.Seal(nonce, nonce, plain, []byte(name)), nil
}

var errSealed = errors.New("idempotency: cannot decrypt a stored response: all replicas need the same root secret")

func (a *Answers) open(name string, value []byte) (Answer, error) {
	n := a.seal.NonceSize()
	if len(value) < n {
		return Answer{}, errSealed
	}
	plain, err := a.seal.Open(nil, value[:n], value[n:], []byte(name))
	if err != nil || len(plain) < 4 || int(binary.BigEndian.Uint32(plain)) > len(plain)-4 {
		return Answer{}, errSealed
	}
	end := 4 + int(binary.BigEndian.Uint32(plain))
	var h header
	if json.Unmarshal(plain[4:end], &h) != nil {
		return Answer{}, errSealed
	}
	h.owner, h.Body = h.Owner, plain[end:]
	return h.Answer, nil
}
