package source

import (
	"crypto/sha256"
	"fmt"

	"muster/schemas/record"
)

// Source is one input, read from its beginning to its end by one goroutine.
type Source interface {
	// Name says which input this is, as the operator wrote it; "-" is
	// standard input. It is the "file" of every record's place.
	Name() string
	// Next returns the objects that follow, at most some hundreds, or the place behind
	// what holds none, unless it fails.
	// It returns io.EOF, alone, behind the last object, an [*Error] when the
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

// Position is a place between two objects of an input. A reading that begins at
// the End of a chunk (Options.From) gives what an uninterrupted one gives behind
// that chunk, as long as the input is the same.
type Position struct {
	// Line is the number of lines, rows or objects before this place, blank
	// lines included.
	Line int64
	// Offset is the number of uncompressed bytes before this place.
	Offset int64
}

// Line is one object of an input, with its place: a JSON value, a line that is no JSON, without its line end, a row of
// columns as a JSON object, or an object that the source made itself.
type Line struct {
	// Kind is set when the source knows better than the run of what kind the
	// object is.
	Kind record.Kind
	// Raw is the JSON text of the object; of an over-long one only the
	// beginning. It is valid until the chunk is released.
	Raw []byte
	// Number counts from 1: the line that the object begins on, blank ones included, or rows, or objects.
	Number int64
	// Offset is that of the object's first byte in the uncompressed input. Rows
	// of a Parquet file have that of their row group.
	Offset int64
	// Inner is set for a JSON value that is not the first on its line.
	Inner bool
	// Oversize is set when the object is longer than the limit.
	Oversize *Oversize
	// Bad is set when what stands here cannot be made an object, and says why.
	// Raw is then the text as it stands in the input.
	Bad *record.Invalid
}

// Oversize describes a line too long to be kept.
type Oversize struct {
	// Length is that of the whole line in bytes, without its line end.
	Length int64
	// SHA256 is that of the whole line, without its line end.
	SHA256 [sha256.Size]byte
}

// Chunk is a run of consecutive objects.
type Chunk struct {
	// Lines holds the objects, without blank lines and empty lists.
	Lines []Line
	// Blank is the number of lines passed over because they hold nothing but
	// white space.
	Blank int64
	// Dropped is the number of objects passed over because no record can be made
	// of them.
	Dropped int64
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
