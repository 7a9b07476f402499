package docs

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"strings"

	"muster/query-api/internal/staticfiles"
)

//go:embed web guides
var files embed.FS

// Path is the base path of the documentation.
const Path = "/docs"

const (
	searchPath      = Path + "/search"
	descriptionPath = "/v1/openapi.json"
)

// referencePolicy allows inline styles, which Scalar sets from its script. Scripts come from this server only, eval is
// forbidden, and no other hosts are contacted.
const (
	referencePolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' " +
		"data:; font-src 'self'; " +
		"connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
	pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; " +
		"form-action 'self'; frame-ancestors 'none'"
)

// Config selects what is served.
type Config struct {
	// Clauses is the generated Markdown page of the search language; its sections become part of the search guide.
	Clauses string
	// Pages has further Markdown pages with their images, by path below deploy/docs. Nil means none.
	Pages fs.FS
	// Reference makes the interactive reference the start page; else it is the list of pages.
	Reference bool
	// StatusPath is the path of a status page to link; empty means none.
	StatusPath string
}

// Handler serves the documentation. It is safe for concurrent use.
type Handler struct {
	cfg      Config
	files    staticfiles.Files
	template *template.Template
	site     *site
	index    *index
}

// New renders the pages.
func New(cfg Config) (*Handler, error) {
	h := &Handler{cfg: cfg, files: make(staticfiles.Files)}
	if err := h.load(); err != nil {
		return nil, fmt.Errorf("documentation: %w", err)
	}
	return h, nil
}

func (h *Handler) load() (err error) {
	assets := map[string]string{
		"docs.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml",
	}
	if h.cfg.Reference {
		assets["reference.js"] = "text/javascript; charset=utf-8"
		packed, err := files.ReadFile("web/scalar.js.gz")
		if err != nil {
			return err
		}
		h.files.Add(Path+"/assets/scalar.js", staticfiles.File{Kind: "text/javascript; charset=utf-8", Packed: packed})
	}
	for name, kind := range assets {
		body, err := files.ReadFile("web/" + name)
		if err != nil {
			return err
		}
		h.files.Add(Path+"/assets/"+name, staticfiles.File{Kind: kind, Body: body})
	}
	if h.template, err = template.ParseFS(files, "web/page.html"); err != nil {
		return err
	}
	if h.site, err = newSite(h.cfg); err != nil {
		return err
	}
	h.index = newIndex(h.site.pages)
	for path, f := range h.site.other {
		h.files.Add(path, f)
	}
	h.files.Add(searchPath, staticfiles.File{}) // rendered for each request
	return h.addPages()
}

// addPages renders the pages with their navigation.
func (h *Handler) addPages() error {
	add := func(path, policy string, content content) error {
		if h.Has(path) {
			return fmt.Errorf("duplicate path %s", path)
		}
		content.Path = path
		body, err := h.render(content)
		h.files.Add(path, staticfiles.File{Kind: "text/html; charset=utf-8", Body: body, Policy: policy})
		return err
	}
	start := content{Title: "Documentation", List: true}
	for _, p := range h.site.pages {
		content := content{Title: p.Title, Body: p.Body, Headings: p.Headings}
		if p.Path == indexPath {
			start = content
		}
		if err := add(p.Path, pagePolicy, content); err != nil {
			return err
		}
	}
	if !h.Has(indexPath) {
		if err := add(indexPath, pagePolicy, start); err != nil {
			return err
		}
	}
	if h.cfg.Reference {
		return add(Path, referencePolicy, content{Title: "API reference", Reference: true})
	}
	return add(Path, pagePolicy, start)
}

// content is the data of the template web/page.html. Reference, Search and List select special pages.
type content struct {
	Title    string
	Path     string
	Body     template.HTML
	Headings []heading

	Reference bool
	List      bool // the groups as text
	Search    bool
	Query     string
	Results   []result

	Config Config
	Groups []group
}

func (h *Handler) render(c content) ([]byte, error) {
	c.Config, c.Groups = h.cfg, h.site.groups
	var b bytes.Buffer
	err := h.template.Execute(&b, c)
	return b.Bytes(), err
}

// Has reports whether a path is served.
func (h *Handler) Has(path string) bool { return h.files.Has(path) }

// Paths returns the served paths, sorted.
func (h *Handler) Paths() []string { return h.files.Paths() }

// ServeHTTP serves a GET. It redirects a path with a final slash.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := h.files[r.URL.Path]
	if path := strings.TrimSuffix(r.URL.Path, "/"); !ok && h.Has(path) {
		http.Redirect(w, r, path, http.StatusPermanentRedirect) //nolint:gosec // a served path
		return
	}
	if !ok {
		http.NotFound(w, r)
		return
	}
	if r.URL.Path == searchPath {
		query := r.URL.Query().Get("q")
		body, err := h.render(content{
			Title: "Search", Path: searchPath, Search: true, Query: query, Results: h.index.search(query),
		})
		if err != nil {
			http.Error(w, "cannot render the page", http.StatusInternalServerError)
			return
		}
		f = staticfiles.File{Kind: "text/html; charset=utf-8", Body: body, Policy: pagePolicy}
	}
	f.Serve(w, r)
}
