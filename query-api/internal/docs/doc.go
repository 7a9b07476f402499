// Package docs serves the documentation at /docs: the interactive reference of the API, the guides, and the pages that
// [Config] names, with full-text search at /docs/search?q=. All files are embedded in the program. Pages load only from
// this server, enforced by their Content-Security-Policy.
//
// The reference is rendered by Scalar in the browser from /v1/openapi.json. Its script is the npm package pinned, with
// its hash, in web/scalar.txt; package fetch downloads it. Guides and pages are Markdown files, rendered once by [New].
// Search compares words without case, accents and plural s, ranks sections with BM25, and also matches words that start
// with a term.
package docs

//go:generate go run ./fetch
