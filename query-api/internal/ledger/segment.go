package ledger

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"

	"muster/query-api/internal/segmentfile"
)

// Kinds of a frame.
const (
	framePrepared  byte = 'p' // event whose response is not yet sent
	frameFinal     byte = 'f' // final event
	frameConfirmed byte = 'a' // the response of a prepared event was sent
	frameVoid      byte = 'v' // the response of a prepared event was not sent
	frameReduced   byte = 'r' // the response was partly sent: this event replaces the prepared one
)

// A frame is: length of the payload (4 bytes), CRC-32C of what follows (4),
// kind (1), sequence number of the event (8), payload. Integers are big endian.
const (
	frameHead  = 17
	maxPayload = 1 << 20
)

// frameCapacity is the initial buffer size of a frame; most frames fit.
const frameCapacity = 640

// sealFrame writes the header of a frame whose payload is already set.
func sealFrame(frame []byte, kind byte, seq uint64) {
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-frameHead)) //nolint:gosec // maxPayload at most
	frame[8] = kind
	binary.BigEndian.PutUint64(frame[9:], seq)
	binary.BigEndian.PutUint32(frame[4:], crc32.Checksum(frame[8:], crc32.MakeTable(crc32.Castagnoli)))
}

// errTruncated is returned for a truncated or corrupt frame, such as after a torn write.
var errTruncated = errors.New("truncated frame")

// readFrame reads the frame at an offset. It returns io.EOF at the end.
func readFrame(file io.ReaderAt, offset int64) (kind byte, seq uint64, payload []byte, next int64, err error) {
	var head [frameHead]byte
	n, err := file.ReadAt(head[:], offset)
	switch {
	case n == 0 && errors.Is(err, io.EOF):
		return 0, 0, nil, offset, io.EOF
	case n < frameHead && errors.Is(err, io.EOF):
		return 0, 0, nil, offset, errTruncated
	case n < frameHead:
		return 0, 0, nil, offset, err
	}
	length := binary.BigEndian.Uint32(head[:])
	if length > maxPayload {
		return 0, 0, nil, offset, errTruncated
	}
	payload = make([]byte, length)
	if n, err := file.ReadAt(payload, offset+frameHead); n < len(payload) {
		if errors.Is(err, io.EOF) {
			err = errTruncated
		}
		return 0, 0, nil, offset, err
	}
	sum := crc32.Checksum(head[8:], crc32.MakeTable(crc32.Castagnoli))
	sum = crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), payload)
	if sum != binary.BigEndian.Uint32(head[4:]) {
		return 0, 0, nil, offset, errTruncated
	}
	return head[8], binary.BigEndian.Uint64(head[9:]), payload, offset + frameHead + int64(length), nil
}

// segment is one file of the outbox.
type segment struct {
	number  uint64
	file    *os.File
	size    int64
	pending int  // unpublished events
	sealed  bool // no further writes
	dirty   bool // written since the last sync
}

const segmentSuffix = ".outbox"

func segmentPath(dir string, number uint64) string {
	return segmentfile.Path(dir, number, segmentSuffix)
}

// segmentNumbers returns the numbers of the segments in a directory, oldest first.
func segmentNumbers(dir string) ([]uint64, error) { return segmentfile.List(dir, segmentSuffix) }

func createSegment(dir string, number uint64) (*segment, error) {
	file, err := os.OpenFile(segmentPath(dir, number), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	folder, err := os.Open(dir)
	if err == nil {
		err = errors.Join(folder.Sync(), folder.Close())
	}
	s := &segment{number: number, file: file}
	if err != nil { // the next attempt uses the same number
		return nil, errors.Join(err, s.remove())
	}
	return s, nil
}

func (s *segment) remove() error {
	return errors.Join(s.file.Close(), os.Remove(s.file.Name()))
}
