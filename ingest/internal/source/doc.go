// Package source reads records from files and standard input: newline-delimited JSON or CSV, plain
// or compressed, and Parquet.
//
// A source splits its input into [Chunk]s of numbered lines, in order, with bounded memory: a line
// longer than the limit is not buffered but reduced to its first bytes, its length and its hash.
// Rows of tables become lines of JSON, by the names and types of their columns. The metadata of a
// Parquet file is validated before the library reads it (parquetcheck.go), and its pages are
// decompressed here within limits. The content of lines is not interpreted.
//
// Positions. A line is identified by its number (from 1) and by the offset of its first byte in the
// uncompressed input (from 0). For a row of CSV that is the line it starts on, for Parquet the row
// number. Positions are the same on every reading, so a reading can resume at a position.
//
// Errors. A failure in the middle of an input (a truncated or corrupt compressed file, a disk
// error) is an [*Error] with its position. Every complete line before it has been returned; a
// truncated last line has not.
//
// Implementations of [Source] are [JSON], [Table] and [Parquet].
package source
