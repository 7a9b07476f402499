package source

import (
	"crypto/sha256"
	"fmt"
)

// Source is one input, read from its beginning to its end by one goroutine.
type Source interface {
	// Name says which input this is, as the operator wrote it; "-" is
	// standard input. It is the "file" of every record's place.
	Name() string
	// Next returns the lines that follow, at least one unless it fails.
	// It returns io.EOF, alone, behind the last line, an [*Error] when the
	// input fails, and the error of the context the source was opened with
	// when that has ended. It does not wait for a chunk to fill up when a
	// slow producer has sent at least one whole line.
	Next() (*Chunk, error)
	// Consumed is the number of bytes taken from the input so far, as stored
	// (compressed if it is). It may be called from any goroutine.
	Consumed() int64
	// Close releases what the source holds. It may be called more than once.
	Close() error
}

// Position is a place between two lines of an input.
type Position struct {
	// Line is the number of lines before this place, blank ones included.
	Line int64
	// Offset is the number of uncompressed bytes before this place.
	Offset int64
}

// Line is one line of an input, without its line end.
type Line struct {
	// Raw is the line itself; of an over-long line only the beginning. It is
	// valid until the chunk is released.
	Raw []byte
	// Number counts from 1, blank lines included.
	Number int64
	// Offset is that of the line's first byte in the uncompressed input.
	Offset int64
	// Oversize is set when the line is longer than the limit.
	Oversize *Oversize
}

// Oversize describes a line too long to be kept.
type Oversize struct {
	// Length is that of the whole line in bytes, without its line end.
	Length int64
	// SHA256 is that of the whole line, without its line end.
	SHA256 [sha256.Size]byte
}

// Chunk is a run of consecutive lines.
type Chunk struct {
	// Lines holds the lines that are not blank.
	Lines []Line
	// Blank is the number of lines passed over because they hold nothing but
	// white space.
	Blank int64
	// End is the place behind the chunk's last line.
	End Position

	release func(*Chunk)
}

// Release gives the chunk's memory back for later chunks. Nothing that it held
// may be used afterwards. Calling it is optional, calling it twice is not.
func (c *Chunk) Release() {
	if c.release != nil {
		c.release(c)
	}
}

// Error is a failure in the middle of an input.
type Error struct {
	// Name is that of the source.
	Name string
	// At is the place behind the last line that could be read whole.
	At Position
	// Consumed is the number of stored bytes taken until then.
	Consumed int64
	// Op is what was being done: "read", "decompress gzip", ...
	Op string
	// Err is why it failed.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s behind line %d (byte %d; stored byte %d): %v",
		e.Name, e.Op, e.At.Line, e.At.Offset, e.Consumed, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
