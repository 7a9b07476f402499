// Package docs serves the documentation of the API at /docs: the interactive
// reference and the guides. All of it is embedded; a page asks nobody but the
// server that it came from, and its Content-Security-Policy sees to that.
//
// The reference is Scalar's, drawn in the browser from /v1/openapi.json. Its
// script is the npm package that web/scalar.txt pins, with the hash of its
// archive; package fetch brings it. The guides are the markdown files in
// guides, rendered once by [New].
package docs

//go:generate go run ./fetch
