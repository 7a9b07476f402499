// Package native rewrites blocks of ClickHouse's Native format from revision 0,
// which libchdb writes, to the revision a client asked for with
// client_protocol_version.
//
// Up to the supported revision the difference is framing: a block info before
// each block and a flag "no custom serialization" behind each column's type.
// Column data stays as it is, so a rewrite finds where each column ends by
// walking its type, and copies; nothing is decoded.
package native
