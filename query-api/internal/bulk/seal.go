package bulk

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/klauspost/compress/zstd"
)

// KeyName and KeyBytes are the derivation parameters of the key that encrypts jobs and answers.
const (
	KeyName  = "bulk-rows"
	KeyBytes = 32
)

// maxOpened bounds the size of decompressed content in bytes; an answer has at most some MiB.
const maxOpened = 64 << 20

// sealer encrypts the content of rows, each bound to its place. It is safe for concurrent use.
type sealer struct {
	aead   cipher.AEAD
	pack   *zstd.Encoder
	unpack *zstd.Decoder
}

func newSealer(key []byte) (*sealer, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("bulk: %w", err)
	}
	s := &sealer{}
	if s.aead, err = cipher.NewGCM(block); err != nil {
		return nil, fmt.Errorf("bulk: %w", err)
	}
	// Only EncodeAll and DecodeAll are used, which start no goroutines.
	if s.pack, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithLowerEncoderMem(true)); err != nil {
		return nil, fmt.Errorf("bulk: %w", err)
	}
	if s.unpack, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0),
		zstd.WithDecoderMaxMemory(maxOpened)); err != nil {
		return nil, fmt.Errorf("bulk: %w", err)
	}
	return s, nil
}

func place(jobID, kind string, number int, version int64) []byte {
	return fmt.Appendf(nil, "%s/%s/%d/%t", jobID, kind, number, version > 0)
}

// seal returns v as compressed and encrypted JSON.
func (s *sealer) seal(v any, at []byte) ([]byte, error) {
	plain, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	nonce := make([]byte, s.aead.NonceSize(), s.aead.NonceSize()+len(plain)/2+s.aead.Overhead()+64)
	if _, err := rand.Read(nonce); err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	return s.aead.Seal(nonce, nonce, s.pack.EncodeAll(plain, nil), at), nil
}

var errSealed = errors.New("cannot decrypt: all replicas of query-api need the same root secret")

// open decodes sealed content into v.
func (s *sealer) open(sealed, at []byte, v any) error {
	n := s.aead.NonceSize()
	if len(sealed) < n {
		return errSealed
	}
	packed, err := s.aead.Open(nil, sealed[:n], sealed[n:], at)
	if err != nil {
		return errSealed
	}
	plain, err := s.unpack.DecodeAll(packed, nil)
	if err != nil {
		return fmt.Errorf("decompress: %w", err)
	}
	if err := json.Unmarshal(plain, v); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return nil
}
