// Package jsonld brings JSON-LD documents of the schema.org vocabulary into one form, whatever form they are written in.
//
// [Normalize] returns the nodes of a document with the plain names of schema.org: prefixed names, terms of an @context,
// full IRIs (http or https, with www. or without) and keyword aliases become "name", "jobTitle" and so on; value objects,
// @list, @set and lists that were written as objects with numbers become plain values and lists; character references of
// HTML in texts are resolved once. Nodes of one @id are merged. A reference to a node of the document becomes that node.
//
// People and organizations below a page or an article (mainEntity, author, publisher and the like) are returned, too,
// with the date of what names them.
//
// Contexts are not loaded. Names without a context are those of schema.org; a context of another vocabulary makes
// them unknown. Unknown names are left out. A JSON-LD processor is not used for these reasons: pages rarely have
// contexts that a strict one accepts, and contexts would have to be loaded.
//
// The work is linear in the size of the document, with a limit on what references repeat.
package jsonld
