// Package cursor keeps the place of a walk over search results in a text that
// the caller carries: sealed, so that it cannot be made, changed or read by others,
// bound to one query of one organization, valid for 24 hours on every replica
// that has the same key, also after a restart (rulings.md, Search).
package cursor
