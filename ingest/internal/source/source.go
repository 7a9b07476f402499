package source

import (
	"crypto/sha256"
	"fmt"

	"muster/schemas/record"
)

// Source is one input, read once from start to end by one goroutine.
type Source interface {
	// Name returns the input as given by the operator; "-" is standard input. It is the "file" in
	// the location of every record.
	Name() string
	// Next returns the next chunk of up to some hundred objects. A chunk without objects advances
	// the position. Next returns nil and io.EOF after the last object, an [*Error] if the input
	// fails, and the error of the source's context after it has ended. It does not wait for a chunk
	// to fill up if a slow writer has sent at least one complete line.
	Next() (*Chunk, error)
	// Consumed returns the number of bytes read from the input so far, before decompression. It is
	// safe for concurrent use.
	Consumed() int64
	// Close releases the source. It may be called more than once.
	Close() error
}

// Position is a position between two objects of an input. A reading that starts at the End of a
// chunk (Options.From) returns the same as an uninterrupted one after that chunk, if the input has
// not changed.
type Position struct {
	// Line is the number of lines, rows or objects before this position, including blank lines.
	Line int64
	// Offset is the number of uncompressed bytes before this position.
	Offset int64
}

// Line is one object of an input, with its location: a JSON value, a line that is not JSON (without
// its line end), a row as a JSON object, or an object that the source created.
type Line struct {
	// Kind is set if the source determines the kind of the object itself.
	Kind record.Kind
	// Raw is the JSON text of the object, or its start if the object is oversize. It is valid until
	// the chunk is released.
	Raw []byte
	// Number is the line that the object starts on, or the number of the row or object, counted
	// from 1. Blank lines count.
	Number int64
	// Offset is the offset of the object's first byte in the uncompressed input. Rows of a Parquet
	// file have the offset of their row group.
	Offset int64
	// Inner is set for a JSON value that is not the first on its line.
	Inner bool
	// Oversize is set if the object is longer than the limit.
	Oversize *Oversize
	// Bad is set if the input cannot be converted to an object, with the reason. Raw is then the
	// text of the input.
	Bad *record.ValidationError
}

// Oversize describes an object that is too long to be kept.
type Oversize struct {
	// Length is the length of the whole line in bytes, without its line end.
	Length int64
	// SHA256 is the hash of the whole line, without its line end.
	SHA256 [sha256.Size]byte
}

// Chunk is a sequence of consecutive objects.
type Chunk struct {
	// Lines has the objects. Blank lines and empty arrays are omitted.
	Lines []Line
	// Blank is the number of blank lines skipped.
	Blank int64
	// Dropped is the number of objects skipped because no record can be derived from them.
	Dropped int64
	// End is the position after the chunk's last line.
	End Position

	release func(*Chunk)
}

// Release makes the chunk's memory available for later chunks. The chunk must not be used
// afterwards. Calling Release is optional; calling it twice is an error.
func (c *Chunk) Release() {
	if c.release != nil {
		c.release(c)
	}
}

// Error is a failure in the middle of an input.
type Error struct {
	// Name is the name of the source.
	Name string
	// At is the position after the last complete line.
	At Position
	// Consumed is the number of stored bytes read until then.
	Consumed int64
	// Op is the failed operation: "read", "decompress gzip" and so on.
	Op string
	// Err is the cause.
	Err error
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s after line %d (byte %d; stored byte %d): %v",
		e.Name, e.Op, e.At.Line, e.At.Offset, e.Consumed, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
