// Package native converts blocks of ClickHouse's Native format from revision 0, which libchdb writes, to the revision
// that a client requests with client_protocol_version.
//
// Up to the supported revision only the framing differs: a block info before each block, and a flag "no custom
// serialization" after each column's type. Column data is unchanged, so the conversion finds the end of each column by
// its type and copies the data without decoding it.
package native
