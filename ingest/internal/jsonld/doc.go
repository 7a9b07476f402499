// Package jsonld normalizes JSON-LD documents of the schema.org vocabulary.
//
// [Normalize] returns the nodes of a document with the plain names of schema.org. Prefixed names, terms of an
// @context, full IRIs (http or https, with or without www.) and keyword aliases become "name", "jobTitle" and so
// on. Value objects, @list, @set and lists encoded as objects with numeric names become plain values and lists.
// HTML character references in strings are resolved once. Nodes with the same @id are merged. A reference to a
// node of the document is replaced by that node.
//
// People and organizations nested in a page or an article (mainEntity, author, publisher and the
// like) are returned as well, with the date of the node that refers to them.
//
// Contexts are not loaded. Names without a context are those of schema.org; a context of another vocabulary makes
// them unknown. Unknown names are dropped. A full JSON-LD processor is not used because pages rarely have
// contexts that a strict one accepts, and because it would have to load contexts.
//
// The work is linear in the size of the document, with a limit on the values repeated by references.
package jsonld
