package v1

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rs/cors"
)

// corsMaxAge is the number of seconds for which a browser may cache a preflight response. Chromium caches at most two
// hours, Firefox a day.
const corsMaxAge = 600

// ParseOrigins returns origins in the form of the Origin header: scheme, host in lower case, and a port unless it is
// the scheme's default. "*" stands for every origin.
func ParseOrigins(values []string) ([]string, error) {
	out := make([]string, 0, len(values))
	for _, v := range values {
		u, err := url.Parse(strings.TrimSuffix(v, "/"))
		switch {
		case v == "*":
			out = append(out, v)
		case err != nil || u.Hostname() == "" || strings.Contains(u.Host, "*") ||
			v != u.Scheme+"://"+u.Host && v != u.Scheme+"://"+u.Host+"/" || defaultPort(u.Scheme) == "":
			return nil, fmt.Errorf(
				"invalid origin %q: want a scheme and a host, such as https://app.example.com, or *", v,
			)
		default:
			out = append(out, u.Scheme+"://"+strings.TrimSuffix(strings.ToLower(u.Host), ":"+defaultPort(u.Scheme)))
		}
	}
	return out, nil
}

func defaultPort(scheme string) string {
	return map[string]string{"http": "80", "https": "443"}[scheme]
}

// crossOrigin lets web pages of the configured origins call the API (CORS, Fetch Standard). Requests of other origins
// are served like those of programs: their pages cannot read the responses. Keys are sent in a header, so cookies are
// not allowed.
func (s *Server) crossOrigin(next http.Handler) http.Handler {
	if len(s.cfg.Origins) == 0 {
		return next
	}
	policy := cors.New(cors.Options{
		AllowedOrigins: s.cfg.Origins,
		AllowedMethods: []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete},
		AllowedHeaders: []string{
			"Authorization", "Content-Type", "Idempotency-Key", "Mcp-Method", "Mcp-Name", "Mcp-Protocol-Version",
		},
		ExposedHeaders: []string{
			"Age", "Idempotent-Replayed", "RateLimit", "RateLimit-Policy", "Retry-After", "X-Credits-Charged",
			"X-Data-As-Of", "X-Degraded", "X-Miss-Reason", "X-Quota-Limit",
			"X-Quota-Remaining", "X-Quota-Used", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset",
			"X-Request-Id", "WWW-Authenticate",
		},
		MaxAge: corsMaxAge,
	})
	allowed := policy.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains(s.cfg.Origins, "*") || policy.OriginAllowed(r) {
			allowed.ServeHTTP(w, r)
			return
		}
		w.Header().Add("Vary", "Origin")
		next.ServeHTTP(w, r)
	})
}
