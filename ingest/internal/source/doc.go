// Package source reads records out of what an operator names: files and
// standard input, as newline-delimited JSON or as CSV, plain or compressed, or as
// Parquet.
//
// Its one job is to turn bytes into [Chunk]s of numbered lines, in order, with
// memory bounded whatever the input holds: a line that is longer than the limit
// is never buffered whole but reduced to its first bytes, its length and its
// hash while it passes by. Rows of tables become lines of JSON by their columns'
// names and types. What a Parquet file says of itself is measured before the library
// reads it (parquetcheck.go), and its pages are unpacked here within bounds. What a
// line means is not looked at here.
//
// Places. A line is known by its number (from 1) and by the offset of its first
// byte in the uncompressed input (from 0); a row of CSV by the line that it begins
// on, one of Parquet by its number. The same
// input gives the same places on every reading, so that a place is enough to find a
// record again and to carry on behind it.
//
// Errors. A failure in the middle of an input (a truncated or damaged
// compressed file, a disk error) is an [*Error] that names the place. Every
// line that was complete before it has been delivered; a torn last line has
// not, because half a record is none.
//
// Each kind of input is an implementation of [Source]: [Lines], [Table], [Parquet].
package source
