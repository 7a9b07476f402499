package idempotency

import (
	"errors"
	"hash/crc32"
	"io"
	"os"
	"time"

	"github.com/go-json-experiment/json"

	"muster/query-api/internal/segmentfile"
)

func checksum(value []byte) uint32 { return crc32.Checksum(value, crc32.MakeTable(crc32.Castagnoli)) }

// Kinds of a frame.
const (
	frameAnswer    byte = 'a' // a stored response
	frameForgotten byte = 'f' // the response of that owner is deleted
)

// frame is an entry of a segment, with its expiry as number and its other fields as JSON. The value follows it and has
// its own checksum, so that it can be overwritten in place.
type frame struct {
	kind  byte
	until time.Time

	Name        string `json:"name"`
	Fingerprint string `json:"fingerprint"`
	Owner       string `json:"owner"`
	Length      int    `json:"length"`
	Sum         uint32 `json:"sum"`

	offset int64 // value offset
}

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

func createSegment(dir string, number uint64, now time.Time) (*segment, error) {
	file, err := os.OpenFile(segmentfile.Path(dir, number, segmentSuffix), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &segment{file: file, began: now}, nil
}

func openSegment(dir string, number uint64) (*segment, error) {
	file, err := os.OpenFile(segmentfile.Path(dir, number, segmentSuffix), os.O_RDWR, 0o600)
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
	f.Length, f.Sum = len(value), checksum(value)
	head, err := json.Marshal(f)
	if err != nil {
		return 0, 0, err
	}
	b := append(make([]byte, segmentfile.FrameHead), head...)
	segmentfile.SealFrame(b, f.kind, uint64(f.until.UnixNano()))
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
	kind, until, head, next, err := segmentfile.ReadFrame(s.file, at)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, segmentfile.ErrTruncated),
		err == nil && json.Unmarshal(head, &f) != nil:
		return frame{}, 0, errNoFrame
	case err != nil:
		return frame{}, 0, err
	}
	f.kind, f.until, f.offset = kind, time.Unix(0, int64(until)), next //nolint:gosec // the same bits
	if next += int64(f.Length); f.Length < 0 || next > s.size {
		return frame{}, 0, errNoFrame
	}
	return f, next, nil
}

func (s *segment) remove() error {
	return errors.Join(s.file.Close(), os.Remove(s.file.Name()))
}
