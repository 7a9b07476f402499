// Package segmentfile names and lists the segment files of a log, and reads and writes their frames.
package segmentfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Path returns the path of a segment. suffix identifies the log.
func Path(dir string, number uint64, suffix string) string {
	return filepath.Join(dir, fmt.Sprintf("%016d%s", number, suffix))
}

// List returns the numbers of the segments in a directory, oldest first. It returns an error if a file with the suffix
// has an invalid name.
func List(dir, suffix string) ([]uint64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(name, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s is not a valid segment name", e.Name())
		}
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	return numbers, nil
}

// A frame is: length of the payload (4 bytes), CRC-32C of what follows (4), kind (1), number (8), payload. Integers are
// big endian.
const (
	// FrameHead is the size of what precedes the payload.
	FrameHead  = 17
	MaxPayload = 1 << 20
)

// SealFrame writes the header of a frame whose payload is already set.
func SealFrame(frame []byte, kind byte, seq uint64) {
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-FrameHead)) //nolint:gosec // MaxPayload at most
	frame[8] = kind
	binary.BigEndian.PutUint64(frame[9:], seq)
	binary.BigEndian.PutUint32(frame[4:], crc32.Checksum(frame[8:], crc32.MakeTable(crc32.Castagnoli)))
}

// ErrTruncated is returned for a truncated or corrupt frame, such as after a torn write.
var ErrTruncated = errors.New("truncated frame")

// ReadFrame reads the frame at an offset. It returns io.EOF at the end.
func ReadFrame(file io.ReaderAt, offset int64) (kind byte, seq uint64, payload []byte, next int64, err error) {
	var head [FrameHead]byte
	n, err := file.ReadAt(head[:], offset)
	switch {
	case n == 0 && errors.Is(err, io.EOF):
		return 0, 0, nil, offset, io.EOF
	case n < FrameHead && errors.Is(err, io.EOF):
		return 0, 0, nil, offset, ErrTruncated
	case n < FrameHead:
		return 0, 0, nil, offset, err
	}
	length := binary.BigEndian.Uint32(head[:])
	if length > MaxPayload {
		return 0, 0, nil, offset, ErrTruncated
	}
	payload = make([]byte, length)
	if n, err := file.ReadAt(payload, offset+FrameHead); n < len(payload) {
		if errors.Is(err, io.EOF) {
			err = ErrTruncated
		}
		return 0, 0, nil, offset, err
	}
	sum := crc32.Checksum(head[8:], crc32.MakeTable(crc32.Castagnoli))
	sum = crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), payload)
	if sum != binary.BigEndian.Uint32(head[4:]) {
		return 0, 0, nil, offset, ErrTruncated
	}
	return head[8], binary.BigEndian.Uint64(head[9:]), payload, offset + FrameHead + int64(length), nil
}
