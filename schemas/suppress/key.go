package suppress

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

// KeyName and KeySize derive the key of the hashes from the root secret.
const (
	KeyName = "suppression-hash"
	KeySize = 32
)

// Hash names an identifier of a type, without saying which.
type Hash [16]byte

// String is the hash in hexadecimal, which is the key of its messages.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ParseHash reads what String wrote.
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

// Key makes hashes.
type Key struct {
	inner, outer [sha256.BlockSize]byte
	id           string
}

// NewKey returns a key of KeySize bytes.
func NewKey(material []byte) (*Key, error) {
	if len(material) != KeySize {
		return nil, fmt.Errorf("suppress: a key of %d bytes, want %d", len(material), KeySize)
	}
	k := new(Key)
	for i := range k.inner {
		k.inner[i], k.outer[i] = 0x36, 0x5c
	}
	for i, b := range material {
		k.inner[i] ^= b
		k.outer[i] ^= b
	}
	h := k.Hash("key", Sum("id"))
	k.id = hex.EncodeToString(h[:4])
	return k, nil
}

// NoKey is a key for hashes that are not kept, such as those of a dry run.
func NoKey() *Key {
	k, err := NewKey(make([]byte, KeySize))
	if err != nil {
		panic(err) // the size is right
	}
	return k
}

// ID tells keys apart, and says nothing of them.
func (k *Key) ID() string { return k.id }

// Hash is the first half of HMAC-SHA256 (RFC 2104) of the type, a zero byte and
// the sum. It is written out since it runs for every identifier of every record,
// and so needs no memory.
func (k *Key) Hash(t Type, sum [sha256.Size]byte) Hash {
	var message [sha256.BlockSize + 32 + 1 + sha256.Size]byte
	n := copy(message[:], k.inner[:])
	n += copy(message[n:n+32], t)
	n++
	n += copy(message[n:], sum[:])
	digest := sha256.Sum256(message[:n])
	var wrapped [sha256.BlockSize + sha256.Size]byte
	copy(wrapped[:], k.outer[:])
	copy(wrapped[sha256.BlockSize:], digest[:])
	digest = sha256.Sum256(wrapped[:])
	return Hash(digest[:16])
}

// Of is the hash of an identifier in its standard form.
func (k *Key) Of(t Type, standard string) Hash { return k.Hash(t, Sum(standard)) }
