package suppress

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"sync"
)

// KeyName and KeySize are the derivation parameters of the hash key.
const (
	KeyName = "suppression-hash"
	KeySize = 32
)

// Hash is the keyed hash of an identifier and its type.
type Hash [16]byte

// String returns the hash in hexadecimal, the key of its messages.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ParseHash parses the result of String.
func ParseHash(s string) (Hash, error) {
	var h Hash
	if len(s) != 2*len(h) {
		return h, errors.New("is no suppression hash")
	}
	if _, err := hex.Decode(h[:], []byte(s)); err != nil {
		return h, errors.New("is no suppression hash")
	}
	return h, nil
}

// Key computes keyed hashes. It is safe for concurrent use.
type Key struct {
	// inner and outer are the HMAC digest states after the key block, which are the same for every hash.
	inner, outer []byte
	// marks are the ciphers for the marks of each type, by its index.
	marks   [typeCount]cipher.Block
	digests sync.Pool // of *digest
	id      string
}

// digest computes one hash at a time.
type digest struct {
	hash  hash.Hash
	state encoding.BinaryUnmarshaler
	sum   [sha256.Size]byte
	text  [32 + 1 + sha256.Size]byte
	block [aes.BlockSize]byte
}

// NewKey returns a Key. material must have KeySize bytes.
func NewKey(material []byte) (*Key, error) {
	if len(material) != KeySize {
		return nil, fmt.Errorf("suppress: a key of %d bytes, want %d", len(material), KeySize)
	}
	k := &Key{digests: sync.Pool{New: func() any {
		h := sha256.New()
		state, _ := h.(encoding.BinaryUnmarshaler)
		return &digest{hash: h, state: state}
	}}}
	var err error
	if k.inner, err = stateAfterKey(material, 0x36); err != nil {
		return nil, err
	}
	if k.outer, err = stateAfterKey(material, 0x5c); err != nil {
		return nil, err
	}
	h := k.Hash("key", Sum("id"))
	k.id = hex.EncodeToString(h[:4])
	for i, t := range indexed() {
		h := k.Hash("mark "+t, Sum("key"))
		if k.marks[i], err = aes.NewCipher(h[:]); err != nil {
			return nil, fmt.Errorf("suppress: %w", err)
		}
	}
	return k, nil
}

// NoKey returns a key for hashes that are not stored, such as those of a dry run.
func NoKey() *Key {
	k, err := NewKey(make([]byte, KeySize))
	if err != nil {
		panic(err) // The size is valid.
	}
	return k
}

// ID identifies the key without revealing it.
func (k *Key) ID() string { return k.id }

// stateAfterKey returns the state of a digest after the key block, whose bytes are XORed with mask.
func stateAfterKey(material []byte, mask byte) ([]byte, error) {
	var block [sha256.BlockSize]byte
	copy(block[:], material)
	for i := range block {
		block[i] ^= mask
	}
	h := sha256.New()
	if _, err := h.Write(block[:]); err != nil {
		return nil, fmt.Errorf("suppress: %w", err)
	}
	state, ok := h.(encoding.BinaryMarshaler)
	if !ok {
		return nil, errors.New("suppress: SHA-256 state cannot be saved")
	}
	return state.MarshalBinary()
}

// Hash returns the first half of HMAC-SHA256 (RFC 2104) of the type, a zero byte and the sum. It runs for
// every identifier of every record, so it starts from the saved states and does not allocate.
func (k *Key) Hash(t Type, sum [sha256.Size]byte) Hash {
	d, _ := k.digests.Get().(*digest)
	defer k.digests.Put(d)
	n := copy(d.text[:32], t)
	d.text[n] = 0
	n++
	n += copy(d.text[n:], sum[:])
	d.run(k.inner, d.text[:n])
	d.run(k.outer, d.sum[:])
	return Hash(d.sum[:16])
}

// run computes the digest of text from a saved state into d.sum.
func (d *digest) run(state, text []byte) {
	if err := d.state.UnmarshalBinary(state); err != nil {
		panic(err) // The state was saved by SHA-256.
	}
	_, _ = d.hash.Write(text) // hash.Hash never returns an error.
	d.hash.Sum(d.sum[:0])
}

// Of returns the hash of an identifier in its normalized form.
func (k *Key) Of(t Type, standard string) Hash { return k.Hash(t, Sum(standard)) }

// Mark returns a second, short hash of an identifier, for [Entry.Mark]: the first 32 bits, in hexadecimal, of
// the AES of the first half of its SHA-256, under a key derived from this one and the type. It costs a third
// of [Key.Hash] and excludes most identifiers that are not in a set. It is empty for types that records are
// not compared by. If the computation changes, rename the JSON field of the entry.
func (k *Key) Mark(t Type, sum [sha256.Size]byte) string { return markText(k.mark(t.index(), sum)) }

// mark returns Mark as a number, 0 for types without marks.
func (k *Key) mark(index int, sum [sha256.Size]byte) uint32 {
	if index >= typeCount {
		return 0
	}
	d, _ := k.digests.Get().(*digest)
	defer k.digests.Put(d)
	return markWith(k.marks[index], &d.block, &sum)
}

// markWith computes a mark, using block as scratch space.
func markWith(key cipher.Block, block *[aes.BlockSize]byte, sum *[sha256.Size]byte) uint32 {
	copy(block[:], sum[:])
	key.Encrypt(block[:], block[:])
	return max(1, binary.BigEndian.Uint32(block[:]))
}

func markText(mark uint32) string {
	if mark == 0 {
		return ""
	}
	return fmt.Sprintf("%08x", mark)
}

// parseMark parses the result of Mark. It returns 0, no mark, for other text.
func parseMark(s string) uint32 {
	var raw [4]byte
	if len(s) != 2*len(raw) {
		return 0
	}
	if _, err := hex.Decode(raw[:], []byte(s)); err != nil {
		return 0
	}
	return binary.BigEndian.Uint32(raw[:])
}

// OwnerKey is the message key, on event.TopicErasure, of the topic owner's record: [Key.OwnerRecord].
const OwnerKey = "owner"

// OwnerRecord returns the owner record, the value under OwnerKey.
func (k *Key) OwnerRecord() []byte { return fmt.Appendf(nil, `{"key":%q}`, k.id) }

// HasOwner reports whether the owner of the topic is known, from its owner record or an entry.
func (s *Set) HasOwner() bool { return s.owner.Load() != nil || s.Len() > 0 }

// CheckOwner returns [ErrOtherKey] if the topic has no entries but is owned by another key. Lookups are still
// complete then, but entries must not be added. It returns nil for a nil set.
func (s *Set) CheckOwner() error {
	if s == nil || s.Len() > 0 {
		return nil
	}
	if id := s.owner.Load(); id != nil && *id != s.key.id {
		return ErrOtherKey
	}
	return nil
}
