// Package docs serves the API documentation at /docs: the interactive reference and the guides. All
// files are embedded. Pages load only from this server, enforced by their Content-Security-Policy.
//
// The reference is rendered by Scalar in the browser from /v1/openapi.json. Its script is the npm
// package pinned, with its hash, in web/scalar.txt; package fetch downloads it. The guides are the
// Markdown files in guides, rendered once by [New].
package docs

//go:generate go run ./fetch
