package searchindex

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"time"

	"muster/schemas/readmodel"
)

// Fields of a document that are not fields of its collection.
const (
	// FieldHash is the hash of the ID in the order of signed integers ([SortableHash]).
	FieldHash = "row.hash"
	// FieldID is the ID.
	FieldID = "row.id"
	// FieldContent identifies the row that the document was built from ([Row.Content]).
	FieldContent = "row.content"
	// FieldVersion is the version of the document, and FieldPartition the partition of the touch that it is of.
	FieldVersion   = "row.version"
	FieldPartition = "row.partition"
)

// SinkGroup is the consumer group that writes the index.
const SinkGroup = "muster.projector.search"

// RefreshInterval is how long after its write a document may become searchable.
const RefreshInterval = time.Second

// GapWord is the word that [GapAnalyzer] drops, so that a phrase has a position that any word may take.
const (
	GapWord     = "mustergapmustergap"
	GapAnalyzer = "muster_gaps"
)

// Field returns the name of a field in documents, or of the whole value of a text.
func Field(f readmodel.SearchField, keyword bool) string {
	switch {
	case f.Type != readmodel.SearchText:
		return f.Path
	case keyword:
		return f.Path + ".keyword"
	}
	return f.Path + ".text"
}

// SortableHash returns a hash as a signed integer with the same order.
func SortableHash(hash uint64) int64 { return int64(hash ^ 1<<63) } //nolint:gosec // the bits

// HashOf is the inverse of SortableHash.
func HashOf(sortable int64) uint64 { return uint64(sortable) ^ 1<<63 } //nolint:gosec // the bits

// KeyName is the name under which the key of document IDs is derived from the root secret, and KeySize its size.
const (
	KeyName = "search-document-id"
	KeySize = 32
)

// DocumentID returns the _id of a person or company: a keyed hash, since IDs are in logs of the cluster.
func DocumentID(key []byte, id string) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(id)) // never fails
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:18])
}

// Names are the names of the indexes and aliases of a collection (readmodel.SearchCollection.Name), with a prefix.
type Names struct{ Prefix, Collection string }

// Alias returns the alias that searches read.
func (n Names) Alias() string { return n.Prefix + n.Collection }

// Pattern matches all indexes, and no alias.
func (n Names) Pattern() string { return n.Prefix + n.Collection + "-*" }

// Index returns the index with an ID.
func (n Names) Index(id string) string { return n.Prefix + n.Collection + "-" + id }

// WriteAlias returns the alias for writes to an index.
func (n Names) WriteAlias(index string) string {
	return n.Prefix + "write-" + strings.TrimPrefix(index, n.Prefix)
}
