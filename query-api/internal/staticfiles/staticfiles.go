// Package staticfiles serves embedded files: revalidated with an ETag, compressed if the client accepts it, and with
// the headers that keep a page to this server.
package staticfiles

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// File is a served file.
type File struct {
	Kind   string // media type
	Body   []byte
	Packed []byte // gzip-compressed body; nil if not compressed
	Policy string // Content-Security-Policy; empty: not a page

	tag string // empty: not cached
}

// Files are served files by path.
type Files map[string]File

// Add adds a file. Its ETag is a hash of its content.
func (f Files) Add(path string, file File) {
	sum := sha256.Sum256(append(bytes.Clone(file.Packed), file.Body...))
	file.tag = `"` + hex.EncodeToString(sum[:12]) + `"`
	f[path] = file
}

// Has reports whether a path is served.
func (f Files) Has(path string) bool {
	_, ok := f[path]
	return ok
}

// Paths returns the served paths, sorted.
func (f Files) Paths() []string { return slices.Sorted(maps.Keys(f)) }

// Serve writes a file as the response to a GET.
func (f File) Serve(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Type", f.Kind)
	// Cached, but revalidated, so that a new version is visible immediately.
	header.Set("Cache-Control", "no-cache")
	if f.tag != "" {
		header.Set("ETag", f.tag)
	}
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	if f.Policy != "" {
		header.Set("Content-Security-Policy", f.Policy)
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
	}
	if f.tag != "" && strings.Contains(r.Header.Get("If-None-Match"), f.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := f.Body
	if f.Packed != nil {
		header.Set("Vary", "Accept-Encoding")
		if acceptsGzip(r) {
			header.Set("Content-Encoding", "gzip")
			body = f.Packed
		} else {
			var err error
			if body, err = unpack(f.Packed); err != nil {
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
