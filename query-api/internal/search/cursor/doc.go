// Package cursor encodes the position of a walk over search results in an opaque, encrypted text. A cursor is bound to
// one query of one organization and valid for 24 hours on all replicas with the same key, also after a restart
// (rulings.md, Search).
package cursor
