// Package explore serves the page at /explore: search, people, companies and the analysts' saved questions.
//
// The page is a client of the /v1 API, without a server part of its own: it sends the calls that it shows, with the key
// that its user entered. All files are embedded in the program, and the Content-Security-Policy keeps scripts, styles,
// images and requests to this server.
package explore

import (
	"embed"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"muster/query-api/internal/staticfiles"
)

//go:embed web
var web embed.FS

// Path is the path of the page.
const Path = "/explore"

// policy restricts the page to this server. Scripts cannot turn text into markup: assignments such as innerHTML require
// trusted types, and the page may create none.
const policy = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// Question is a saved question of analysts.
type Question struct {
	Number    int    `json:"number"`
	Title     string `json:"title"`
	Note      string `json:"note,omitempty"`
	Statement string `json:"statement"`
	Chart     *Chart `json:"chart,omitempty"` // nil: a table only
}

// Chart is how the answer to a question is drawn.
type Chart struct {
	Kind   string   `json:"kind"` // bar, line or stacked
	X      []string `json:"x"`    // columns of the labels
	Y      []string `json:"y"`    // columns of the values
	Series string   `json:"series,omitempty"`
}

// Handler serves the page and its files. It is safe for concurrent use.
type Handler struct{ files staticfiles.Files }

// New returns a Handler.
func New() (*Handler, error) {
	h := &Handler{files: make(staticfiles.Files)}
	kinds := map[string]string{".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
	err := fs.WalkDir(web, "web", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		body, err := web.ReadFile(name)
		file := staticfiles.File{Kind: kinds[path.Ext(name)] + "; charset=utf-8", Body: body}
		if path.Ext(name) == ".html" {
			file.Policy = policy
			h.files.Add(Path, file)
			return err
		}
		h.files.Add(Path+strings.TrimPrefix(name, "web"), file)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("explore: %w", err)
	}
	return h, nil
}

// Has reports whether a path is served.
func (h *Handler) Has(path string) bool { return h.files.Has(path) }

// Paths returns the served paths, sorted.
func (h *Handler) Paths() []string { return h.files.Paths() }

// ServeHTTP serves a GET of a path that Has reports.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	file, ok := h.files[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	file.Serve(w, r)
}
