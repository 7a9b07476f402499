package ledger

import (
	"errors"
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

// frameCapacity is the initial buffer size of a frame; most frames fit.
const frameCapacity = 640

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

func createSegment(dir string, number uint64) (*segment, error) {
	file, err := os.OpenFile(segmentfile.Path(dir, number, segmentSuffix), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
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
