package v1

import (
	"net/http"
	"strings"

	"muster/platform/suggest"
)

// embeddedPages are pages in the program with the files that they load.
type embeddedPages interface {
	http.Handler
	Has(path string) bool
	Paths() []string
}

// servePages serves the pages below the path of op, and passes other paths to next. Pages need no key, so they bypass
// the checks of the API.
func (s *Server) servePages(op *operation, render func() (embeddedPages, error), next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		if path != op.path && !strings.HasPrefix(path, op.path+"/") {
			next.ServeHTTP(w, r)
			return
		}
		x := exchangeOf(r.Context())
		pages, err := render()
		if err != nil {
			x.fail(w, problemOf(op, err))
			return
		}
		switch {
		case path == op.path+"/":
			x.operation = op
			http.Redirect(w, r, op.path, http.StatusPermanentRedirect)
		case !pages.Has(path):
			x.fail(w, &problem{
				status: http.StatusNotFound,
				detail: "no such page: " + suggest.Hint(path, pages.Paths(), "see "+op.path),
			})
		case !isRead(r):
			x.fail(w, useGET())
		default:
			x.operation = op
			pages.ServeHTTP(w, r)
		}
	})
}

// redirectRoot redirects / to the path of op, and passes other requests to next.
func redirectRoot(op *operation, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" || !isRead(r) {
			next.ServeHTTP(w, r)
			return
		}
		exchangeOf(r.Context()).operation = op
		http.Redirect(w, r, op.path, http.StatusFound)
	})
}

func isRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// useGET is the response to another method.
func useGET() *problem {
	return &problem{
		status: http.StatusMethodNotAllowed, allow: "GET, HEAD", detail: "method not allowed: use GET",
	}
}
