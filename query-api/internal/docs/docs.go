package docs

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
)

//go:embed web guides
var files embed.FS

// Path is the base path of the documentation.
const Path = "/docs"

// policies. Scalar sets styles from its script, so only its page allows inline styles. Scripts come from this server
// only, eval is forbidden, and no other hosts are contacted.
const (
	referencePolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' " +
		"data:; font-src 'self'; " +
		"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	guidePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; " +
		"form-action 'none'; frame-ancestors 'none'"
)

// file is a served file.
type file struct {
	kind   string // media type
	body   []byte
	packed []byte // gzip-compressed body; nil if not compressed
	policy string
	tag    string
}

// Handler serves the documentation. It is safe for concurrent use.
type Handler struct{ files map[string]file }

// New renders the pages. clauses is the generated Markdown page of the search language; its sections become part of the
// search guide.
func New(clauses string) (*Handler, error) {
	h := &Handler{files: make(map[string]file)}
	for name, kind := range map[string]string{
		"docs.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8",
		"reference.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml",
	} {
		body, err := files.ReadFile("web/" + name)
		if err != nil {
			return nil, fmt.Errorf("documentation: %w", err)
		}
		h.add(Path+"/assets/"+name, file{kind: kind, body: body})
	}
	_, clauses, _ = strings.Cut(clauses, "\n## ") // the guide has its own title and introduction
	clauses = "## " + clauses
	packed, err := files.ReadFile("web/scalar.js.gz")
	if err != nil {
		return nil, fmt.Errorf("documentation: %w", err)
	}
	h.add(Path+"/assets/scalar.js", file{kind: "text/javascript; charset=utf-8", packed: packed})
	if err := h.pages(clauses); err != nil {
		return nil, fmt.Errorf("documentation: %w", err)
	}
	return h, nil
}

func (h *Handler) add(path string, f file) {
	sum := sha256.Sum256(append(f.packed, f.body...))
	f.tag = `"` + hex.EncodeToString(sum[:12]) + `"`
	h.files[path] = f
}

// pages renders the reference and the guides.
func (h *Handler) pages(clauses string) error {
	page, err := template.ParseFS(files, "web/page.html")
	if err != nil {
		return err
	}
	render := func(path, policy string, content content) error {
		content.Guides = guides()
		content.Path = path
		var b bytes.Buffer
		if err := page.Execute(&b, content); err != nil {
			return err
		}
		h.add(path, file{kind: "text/html; charset=utf-8", body: b.Bytes(), policy: policy})
		return nil
	}
	if err := render(Path, referencePolicy, content{Title: "API reference", Reference: true}); err != nil {
		return err
	}
	for _, g := range guides() {
		source, err := files.ReadFile("guides/" + g.Name + ".md")
		if err != nil {
			return err
		}
		text, headings, err := markdown(bytes.ReplaceAll(source, []byte("{{clauses}}"), []byte(clauses)))
		if err != nil {
			return fmt.Errorf("%s.md: %w", g.Name, err)
		}
		if err := render(g.Path(), guidePolicy, content{Title: g.Title, Body: text, Headings: headings}); err != nil {
			return err
		}
	}
	return nil
}

// Has reports whether a path is served.
func (h *Handler) Has(path string) bool {
	_, ok := h.files[path]
	return ok
}

// Paths returns the served paths, sorted.
func (h *Handler) Paths() []string {
	return slices.Sorted(maps.Keys(h.files))
}

// ServeHTTP serves a GET of a path for which Has is true.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := h.files[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	header := w.Header()
	header.Set("Content-Type", f.kind)
	header.Set("ETag", f.tag)
	// Cached, but revalidated, so that a new version is visible immediately.
	header.Set("Cache-Control", "no-cache")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	if f.policy != "" {
		header.Set("Content-Security-Policy", f.policy)
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
	}
	if strings.Contains(r.Header.Get("If-None-Match"), f.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := f.body
	if f.packed != nil {
		header.Set("Vary", "Accept-Encoding")
		if acceptsGzip(r) {
			header.Set("Content-Encoding", "gzip")
			body = f.packed
		} else {
			var err error
			if body, err = unpack(f.packed); err != nil {
				// Embedded files are valid: a test decompresses them.
				header.Del("ETag")
				http.Error(w, "the file cannot be read", http.StatusInternalServerError)
				return
			}
		}
	}
	// The client may have disconnected.
	_, _ = w.Write(body)
}

func acceptsGzip(r *http.Request) bool {
	for _, value := range r.Header.Values("Accept-Encoding") {
		for part := range strings.SplitSeq(value, ",") {
			coding, q, _ := strings.Cut(strings.TrimSpace(part), ";")
			if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
				weight := strings.ReplaceAll(q, " ", "")
				return strings.Trim(strings.TrimPrefix(weight, "q="), "0.") != "" || !strings.HasPrefix(weight, "q=")
			}
		}
	}
	return false
}

func unpack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(r)
	return body, errors.Join(err, r.Close())
}
