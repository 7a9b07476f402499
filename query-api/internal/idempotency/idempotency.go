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
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/query-api/internal/canonical"
)

// Kept is how long an answer is kept.
const Kept = 24 * time.Hour

// State is what a store knows of a call.
type State int

// States.
const (
	New      State = iota // it is claimed for the caller of Begin now
	Running               // somebody else has claimed it
	Stored                // its answer is there
	Mismatch              // it was sent with another body
)

// Store keeps claims and answers by name. It is safe for concurrent use.
type Store interface {
	// Begin claims a name for an owner, unless another one has claimed it, or it is stored
	// already. The claim ends with the lease. value is the answer of a Stored one.
	Begin(ctx context.Context, name, fingerprint, owner string, lease time.Duration) (state State, value []byte, err error)
	// Renew has a claim of an owner last for another lease from now on; when it is not
	// there any more, or completed, it does nothing.
	Renew(ctx context.Context, name, owner string, lease time.Duration) error
	// Complete stores an answer under a name that its owner has claimed; when the
	// claim is not there any more it does nothing.
	Complete(ctx context.Context, name, owner string, value []byte, kept time.Duration) error
	// Forget ends an owner's claim, or removes the answer that it has stored.
	Forget(ctx context.Context, name, owner string) error
	// Withdraw is Forget, but for an answer that Begin has given to somebody: that
	// stays, and given is true.
	Withdraw(ctx context.Context, name, owner string) (given bool, err error)
}

// Answer is an answer that is kept.
type Answer struct {
	Status      int
	ContentType string
	Body        []byte
	// Identities are those of the records that are in the answer, as "<kind>
	// <identity>".
	Identities []string
	// Endpoint is the path of the call. Accounts are those that the answer names
	// beside its records, as "<platform> <comparison form of the username>". Answers
	// that were stored before there were these have none of them.
	Endpoint string
	Accounts []string
	// Identifiers are what those whom the answer tells of go by, as "<platform> id <id>", "<platform> username <comparison
	// form>" and "<platform> email <comparison form>": they may be what somebody is erased by.
	Identifiers []string
	// Header are the headers that say more of the answer, by name.
	Header map[string]string

	owner string // of a stored one
}

// details are what an answer has had since there were stored ones without it.
type details struct {
	Endpoint    string            `json:"endpoint,omitempty"`
	Accounts    []string          `json:"accounts,omitempty"`
	Identifiers []string          `json:"identifiers,omitempty"`
	Header      map[string]string `json:"header,omitempty"`
}

// Answers keeps answers in a store.
type Answers struct {
	store Store
	key   []byte // of names and fingerprints
	seal  cipher.AEAD
}

// KeyBytes is the size of the key that NewAnswers needs.
const KeyBytes = 64

// NewAnswers returns Answers whose names and contents depend on key, which all
// replicas share.
func NewAnswers(store Store, key []byte) (*Answers, error) {
	if len(key) != KeyBytes {
		return nil, fmt.Errorf("idempotency: a key of %d bytes, want %d", len(key), KeyBytes)
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

// Call is a call with a key.
type Call struct {
	Organization, Method, Path, Key string
	// Part tells apart what is kept under one key beside the answer; empty: the answer.
	Part string
	Body []byte
	// Owner names this attempt.
	Owner string
	Lease time.Duration
	// Erased, if set, says that an answer must not be given again: it is removed, and
	// the call is a new one.
	Erased func(Answer) bool
}

// Claim is a call that is running under its key.
type Claim struct {
	answers *Answers
	name    string
	owner   string
}

// Begin claims a call. For Stored there is an answer and a claim that only the owner
// who has stored it may use, for New a claim, which must be completed or given up. With
// an error the call may be claimed all the same: then the claim must be given up, too.
func (a *Answers) Begin(ctx context.Context, c Call) (State, Answer, Claim, error) {
	parts := []string{"name 2", c.Organization, c.Method, c.Path, c.Key}
	if c.Part != "" {
		parts = append(parts, c.Part)
	}
	name := a.hash(parts...)
	body := jsontext.Value(append([]byte(nil), c.Body...))
	// Integers stay as they are: floating point would take those beyond 2^53 for others.
	if canonical.JSON(&body, jsontext.CanonicalizeRawInts(false)) != nil { // then as it is
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
	if err := a.store.Forget(ctx, name, owner); err != nil {
		return 0, Answer{}, claim, fmt.Errorf("idempotency: %w", err)
	}
	return a.Begin(ctx, c)
}

// Renew has the claim last for another lease.
func (c Claim) Renew(ctx context.Context, lease time.Duration) error {
	if err := c.answers.store.Renew(ctx, c.name, c.owner, lease); err != nil {
		return fmt.Errorf("idempotency: %w", err)
	}
	return nil
}

// Complete keeps the answer.
func (c Claim) Complete(ctx context.Context, answer Answer) error {
	value, err := c.answers.encrypt(c.name, c.owner, answer)
	if err == nil {
		err = c.answers.store.Complete(ctx, c.name, c.owner, value, Kept)
	}
	if err != nil {
		return fmt.Errorf("idempotency: %w", err)
	}
	return nil
}

// GiveUp lets the call be made again, also when its answer is stored already, unless
// somebody was given that: then it stays, and given is true.
func (c Claim) GiveUp(ctx context.Context) (given bool, err error) {
	if given, err = c.answers.store.Withdraw(ctx, c.name, c.owner); err != nil {
		return false, fmt.Errorf("idempotency: %w", err)
	}
	return given, nil
}

// Purge removes the stored answers that must not be given again, from a store that is
// asked for all of them. Others forget an answer when it is asked for.
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
			return nil //nolint:nilerr // of another root secret: nobody is given it
		}
		owner := answer.owner
		answer.owner = ""
		if !erased(answer) {
			return nil
		}
		return a.store.Forget(ctx, name, owner)
	})
	if err != nil {
		return fmt.Errorf("idempotency: %w", err)
	}
	return nil
}

// hash is a keyed hash of parts, each with its length so that they cannot run
// into each other.
func (a *Answers) hash(parts ...string) string {
	h := hmac.New(sha256.New, a.key)
	for _, p := range parts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
		h.Write([]byte(p))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// encrypt binds the answer to its name: it opens under no other.
func (a *Answers) encrypt(name, owner string, answer Answer) ([]byte, error) {
	nonce := make([]byte, a.seal.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	more, err := json.Marshal(details{Endpoint: answer.Endpoint, Accounts: answer.Accounts, Identifiers: answer.Identifiers, Header: answer.Header}, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	// The details are the last line of the identities: a replica of the version before,
	// which does not know of them, takes them for an identity that nobody has.
	identities := answer.Identities
	if string(more) != "{}" {
		identities = append(slices.Clone(identities), string(more))
	}
	plain := binary.BigEndian.AppendUint16(nil, uint16(answer.Status)) //nolint:gosec // an HTTP status
	for _, part := range []string{owner, answer.ContentType, strings.Join(identities, "\n")} {
		plain = binary.BigEndian.AppendUint32(plain, uint32(len(part))) //nolint:gosec // an answer's parts are far smaller
		plain = append(plain, part...)
	}
	plain = append(plain, answer.Body...)
	return a.seal.Seal(nonce, nonce, plain, []byte(name)), nil
}

var errSealed = errors.New("idempotency: a stored answer cannot be opened: do all replicas have the same root secret?")

func (a *Answers) open(name string, value []byte) (Answer, error) {
	n := a.seal.NonceSize()
	if len(value) < n {
		return Answer{}, errSealed
	}
	plain, err := a.seal.Open(nil, value[:n], value[n:], []byte(name))
	if err != nil || len(plain) < 2 {
		return Answer{}, errSealed
	}
	answer := Answer{Status: int(binary.BigEndian.Uint16(plain))}
	rest := plain[2:]
	var parts [3]string
	for i := range parts {
		if len(rest) < 4 || len(rest)-4 < int(binary.BigEndian.Uint32(rest)) {
			return Answer{}, errSealed
		}
		n := 4 + int(binary.BigEndian.Uint32(rest))
		parts[i], rest = string(rest[4:n]), rest[n:]
	}
	answer.owner, answer.ContentType, answer.Body = parts[0], parts[1], rest
	if parts[2] == "" {
		return answer, nil
	}
	identities := strings.Split(parts[2], "\n")
	if last := len(identities) - 1; strings.HasPrefix(identities[last], "{") {
		var more details
		if json.Unmarshal([]byte(identities[last]), &more) != nil {
			return Answer{}, errSealed
		}
		answer.Endpoint, answer.Accounts, answer.Identifiers, answer.Header = more.Endpoint, more.Accounts, more.Identifiers, more.Header
		identities = identities[:last]
	}
	if len(identities) > 0 {
		answer.Identities = identities
	}
	return answer, nil
}
