package suppress

import (
	"crypto/sha256"
	"encoding"
	"hash"
)

// short is a text of at most maxShort bytes as SHA-256 takes it in (FIPS 180-4, section
// 5.1.1): with a bit of one behind it, and its length in bits at the end of the block.
type short [sha256.BlockSize]byte

// maxShort is the length of the longest text that is one block of SHA-256.
const maxShort = sha256.BlockSize - 1 - 8

func (b *short) set(text string) { b.pad(copy(b[:maxShort], text)) }

// pad makes it the block of its first n bytes.
func (b *short) pad(n int) {
	clear(b[n:])
	b[n] = 0x80
	b[len(b)-2], b[len(b)-1] = byte(n>>5), byte(n<<3) //nolint:gosec // n is at most 55
}

// summer makes the SHA-256 of short texts: see [summer.sum].
type summer struct {
	hash  hash.Hash
	state encoding.BinaryAppender // nil when it is not as it should be
	text  [128]byte
}

// stateAt is where the eight words are in a state of SHA-256, behind what names it.
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

// sum is [Sum] in two thirds of the time: once a text is padded, all that is left for the
// library is to take one block in, and its state is the sum. This runs for every identifier
// of every record. That the state can be read is tried when a summer is made.
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
