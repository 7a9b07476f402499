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

// Key makes hashes. It is safe for concurrent use.
type Key struct {
	// inner and outer are the states of the two digests of HMAC behind their block of
	// key: what would be computed for each hash again.
	inner, outer []byte
	// marks make the marks of each type's identifiers, by its index.
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

// NewKey returns a key of KeySize bytes.
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
	if k.inner, err = behind(material, 0x36); err != nil {
		return nil, err
	}
	if k.outer, err = behind(material, 0x5c); err != nil {
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

// behind is the state of a digest behind the block of a key, each byte of it changed by
// a mask.
func behind(material []byte, mask byte) ([]byte, error) {
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
		return nil, errors.New("suppress: the state of SHA-256 cannot be kept")
	}
	return state.MarshalBinary()
}

// Hash is the first half of HMAC-SHA256 (RFC 2104) of the type, a zero byte and
// the sum. It runs for every identifier of every record, and so begins where the key
// has been taken in, and needs no memory.
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

// run puts the digest that began with a state and ends with text into d.sum.
func (d *digest) run(state, text []byte) {
	if err := d.state.UnmarshalBinary(state); err != nil {
		panic(err) // the state is SHA-256's own
	}
	_, _ = d.hash.Write(text) // never an error (hash.Hash)
	d.hash.Sum(d.sum[:0])
}

// Of is the hash of an identifier in its standard form.
func (k *Key) Of(t Type, standard string) Hash { return k.Hash(t, Sum(standard)) }

// Mark is a second, short hash of an identifier, for [Entry.Mark]: in hexadecimal the
// first 32 bits of the AES of the first half of its SHA-256, under a key that follows
// from this one and the type. It costs a third of [Key.Hash], and says of most
// identifiers that they are not in a set; of a type that records are not compared by it
// is empty. Whoever changes how it is made gives the member of the entry another name.
func (k *Key) Mark(t Type, sum [sha256.Size]byte) string { return markText(k.mark(t.index(), sum)) }

// mark is Mark as a number, 0 of a type that has none.
func (k *Key) mark(index int, sum [sha256.Size]byte) uint32 {
	if index >= typeCount {
		return 0
	}
	d, _ := k.digests.Get().(*digest)
	defer k.digests.Put(d)
	return markWith(k.marks[index], &d.block, &sum)
}

// markWith makes a mark in a block that it may use.
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

// parseMark reads what Mark wrote; anything else is no mark, 0.
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
