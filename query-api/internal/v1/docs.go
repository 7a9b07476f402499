package v1

import (
	"net/http"
	"strings"

	"muster/platform/suggest"
	"muster/query-api/internal/docs"
)

// document serves the documentation, redirects / to it, and passes other paths to next. Its pages need no key, so they
// bypass the checks of the API.
func (s *Server) document(render func() (*docs.Handler, error), next http.Handler) http.Handler {
	op := &operation{id: "getDocs", method: http.MethodGet, path: docs.Path}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead
		if path == "/" && reads {
			exchangeOf(r.Context()).operation = op
			http.Redirect(w, r, docs.Path, http.StatusFound)
			return
		}
		if path != docs.Path && !strings.HasPrefix(path, docs.Path+"/") {
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
		case path == docs.Path+"/":
			x.operation = op
			http.Redirect(w, r, docs.Path, http.StatusPermanentRedirect)
		case !pages.Has(path):
			x.fail(w, &problem{
				status: http.StatusNotFound,
				detail: "no such page: " + suggest.Hint(path, pages.Paths(), docs.Path+" lists all pages"),
			})
		case !reads:
			x.fail(w, &problem{
				status: http.StatusMethodNotAllowed, allow: "GET, HEAD",
				detail: "method not allowed: use GET",
			})
		default:
			x.operation = op
			pages.ServeHTTP(w, r)
		}
	})
}
