package idempotency

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"time"

	"muster/query-api/internal/segmentfile"
)

// checksum returns the CRC-32C of the concatenated parts.
func checksum(parts ...[]byte) (sum uint32) {
	for _, p := range parts {
		sum = crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), p)
	}
	return sum
}

// Kinds of a frame.
const (
	frameAnswer    byte = 'a' // a stored response
	frameForgotten byte = 'f' // the response of that owner is deleted
)

// frame is an entry of a segment. Its value follows it and has its own checksum, so that it can be overwritten in
// place.
type frame struct {
	kind                     byte
	until                    time.Time
	name, fingerprint, owner string

	offset int64 // value offset
	length int
	sum    uint32
}

// A frame on disk is: CRC-32C of the rest without the value (4 bytes), kind (1), until
// in nanoseconds since 1970 (8), checksum of the value (4), lengths of name,
// fingerprint, owner and value (4 each), the three strings, the value. Integers are big
// endian.
const (
	frameHead = 33
	maxText   = 1 << 10
)

// errNoFrame is returned at the end of the complete frames.
var errNoFrame = errors.New("no complete frame")

// segment is a file of stored responses.
type segment struct {
	file  *os.File
	size  int64
	began time.Time
	until time.Time // expiry of all responses in it
	full  bool      // no further writes
}

const segmentSuffix = ".answers"

func segmentPath(dir string, number uint64) string {
	return segmentfile.Path(dir, number, segmentSuffix)
}

// segmentNumbers returns the numbers of the segments in a directory, oldest first.
func segmentNumbers(dir string) ([]uint64, error) { return segmentfile.List(dir, segmentSuffix) }

func createSegment(dir string, number uint64, now time.Time) (*segment, error) {
	file, err := os.OpenFile(segmentPath(dir, number), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &segment{file: file, began: now}, nil
}

func openSegment(dir string, number uint64) (*segment, error) {
	file, err := os.OpenFile(segmentPath(dir, number), os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &segment{file: file, size: info.Size()}, nil
}

// append writes a frame and its value. It returns the offset of the value and the number of bytes written. After a
// failure, such as on a full disk, it truncates the partial write; if that fails, too, it marks the segment as full.
func (s *segment) append(f frame, value []byte) (offset, n int64, err error) {
	b := make([]byte, frameHead, frameHead+len(f.name)+len(f.fingerprint)+len(f.owner)+len(value))
	b[4] = f.kind
	binary.BigEndian.PutUint64(b[5:], uint64(f.until.UnixNano()))
	binary.BigEndian.PutUint32(b[13:], checksum(value))
	for i, part := range []int{len(f.name), len(f.fingerprint), len(f.owner), len(value)} {
		binary.BigEndian.PutUint32(b[17+4*i:], uint32(part)) //nolint:gosec // a response is far smaller
	}
	b = append(append(append(b, f.name...), f.fingerprint...), f.owner...)
	binary.BigEndian.PutUint32(b, checksum(b[4:]))
	offset = s.size + int64(len(b))
	b = append(b, value...)
	if _, err := s.file.WriteAt(b, s.size); err != nil {
		if cut := s.file.Truncate(s.size); cut != nil {
			s.full = true
			err = errors.Join(err, cut)
		}
		return 0, 0, err
	}
	s.size += int64(len(b))
	return offset, int64(len(b)), nil
}

// read reads the frame at an offset, without its value, and returns the offset of the next one.
func (s *segment) read(at int64) (f frame, next int64, err error) {
	var head [frameHead]byte
	if err := s.readAt(head[:], at); err != nil {
		return frame{}, 0, err
	}
	var lengths [4]int64
	for i := range lengths {
		lengths[i] = int64(binary.BigEndian.Uint32(head[17+4*i:]))
	}
	if lengths[0] > maxText || lengths[1] > maxText || lengths[2] > maxText {
		return frame{}, 0, errNoFrame
	}
	texts := make([]byte, lengths[0]+lengths[1]+lengths[2])
	if err := s.readAt(texts, at+frameHead); err != nil {
		return frame{}, 0, err
	}
	if checksum(head[4:], texts) != binary.BigEndian.Uint32(head[:]) {
		return frame{}, 0, errNoFrame
	}
	f = frame{
		kind: head[4], until: time.Unix(0, int64(binary.BigEndian.Uint64(head[5:]))), //nolint:gosec // the same bits
		name: string(texts[:lengths[0]]), fingerprint: string(texts[lengths[0] : lengths[0]+lengths[1]]),
		owner:  string(texts[lengths[0]+lengths[1]:]),
		offset: at + frameHead + int64(len(texts)), length: int(lengths[3]), sum: binary.BigEndian.Uint32(head[13:]),
	}
	next = f.offset + lengths[3]
	if next > s.size {
		return frame{}, 0, errNoFrame
	}
	return f, next, nil
}

func (s *segment) readAt(b []byte, at int64) error {
	_, err := s.file.ReadAt(b, at)
	if errors.Is(err, io.EOF) {
		return errNoFrame
	}
	return err
}

func (s *segment) remove() error {
	return errors.Join(s.file.Close(), os.Remove(s.file.Name()))
}
