// Package docs has the documentation pages. Query-api serves them at /docs, and every process does on its admin
// address.
//
// README.md is the list of all pages: its second-level headings and links, in their order, are the navigation. Pages
// that it does not link are listed under "More".
package docs

import (
	"embed"
	"io/fs"
)

//go:embed *.md *.svg decisions/*.md spec/*.md images/*.png discovery-results.json
var files embed.FS

// Pages returns the Markdown pages and their images, by path in this directory.
func Pages() fs.FS { return files }
