package suppress

import (
	"crypto/sha256"
	"encoding"
	"hash"
)

// short is a text of at most maxShort bytes, padded as a SHA-256 block (FIPS 180-4, section 5.1.1).
type short [sha256.BlockSize]byte

// maxShort is the maximum length of a text that fits one SHA-256 block.
const maxShort = sha256.BlockSize - 1 - 8

func (b *short) set(text string) { b.pad(copy(b[:maxShort], text)) }

// pad pads the block after its first n bytes.
func (b *short) pad(n int) {
	clear(b[n:])
	b[n] = 0x80
	b[len(b)-2], b[len(b)-1] = byte(n>>5), byte(n<<3) //nolint:gosec // n is at most 55
}

// summer computes the SHA-256 of short texts: see [summer.sum].
type summer struct {
	hash  hash.Hash
	state encoding.BinaryAppender // nil if the state cannot be read
	text  [128]byte
}

// stateAt is the offset of the eight words in a saved SHA-256 state.
const stateAt = 4

func newSummer() *summer {
	s := &summer{hash: sha256.New()}
	s.state, _ = s.hash.(encoding.BinaryAppender)
	var b short
	var sum [sha256.Size]byte
	b.set("a text")
	if s.sum(&b, &sum); sum != Sum("a text") {
		s.state = nil
	}
	return s
}

// sum is [Sum] in two thirds of the time: for a padded text the library processes one block, and its state is
// the sum. It runs for every identifier of every record. newSummer tests that the state can be read.
func (s *summer) sum(b *short, sum *[sha256.Size]byte) {
	if s.state != nil {
		s.hash.Reset()
		_, _ = s.hash.Write(b[:]) // never an error (hash.Hash)
		if state, err := s.state.AppendBinary(s.text[:0]); err == nil && len(state) >= stateAt+len(sum) {
			copy(sum[:], state[stateAt:])
			return
		}
	}
	*sum = sha256.Sum256(b[:int(b[len(b)-2])<<5|int(b[len(b)-1])>>3])
}
