package facade

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"muster/platform/engine/internal/chdb"
)

// User is somebody the facade lets in.
type User struct {
	Name     string
	Password string // empty: none is asked for
	// Analyst restricts the user to reading tables: no writes, no files, no
	// other hosts, no programs, no settings outside of an allow-list.
	Analyst bool
}

// authenticate finds the user of a request, by ClickHouse's three ways: basic
// authentication, the X-ClickHouse-User and -Key headers, the user and password
// parameters. A request without any is the user called "default".
func (s *Server) authenticate(r *http.Request, params url.Values) (*User, *chdb.Error) {
	name, password, ways := "default", "", 0
	if u, p, ok := r.BasicAuth(); ok {
		name, password = u, p
		ways++
	} else if r.Header.Get("Authorization") != "" {
		return nil, errAuthenticationFailed.errorf("Invalid authentication: only the Basic scheme is supported")
	}
	if u, p := r.Header.Get("X-ClickHouse-User"), r.Header.Get("X-ClickHouse-Key"); u != "" || p != "" {
		name, password = u, p
		ways++
	}
	if params.Has("user") || params.Has("password") {
		name, password = params.Get("user"), params.Get("password")
		ways++
	}
	if ways > 1 {
		return nil, errAuthenticationFailed.errorf("Invalid authentication: more than one way of giving the user's credentials was used")
	}
	if name == "" {
		name = "default"
	}
	for i := range s.cfg.Users {
		u := &s.cfg.Users[i]
		switch {
		case u.Name != name, u.Password == "" && password != "", u.Password != "" && !equal(u.Password, password):
			continue
		case u.Password != "":
			return u, nil
		case !addressedByIP(r.Host):
			// A page in the operator's browser could otherwise reach this address
			// under a name of its own (DNS rebinding).
			return nil, errAuthenticationFailed.errorf("Requests without a password must address the server as localhost or by its IP address")
		case fromAnotherPage(r):
			return nil, errAuthenticationFailed.errorf("Requests without a password must not come from a page of another origin")
		}
		return u, nil
	}
	return nil, errAuthenticationFailed.errorf("%s: Authentication failed: password is incorrect, or there is no user with such name", name)
}

// equal compares in a time that tells nothing of the secret.
func equal(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// fromAnotherPage says that a browser sent the request for a page that is not the server's own, as a script's source for
// example (Fetch Metadata Request Headers, W3C). What is no browser sends neither header; nor does one on http
// to an address that is not loopback, where the answer's headers keep a page from it.
func fromAnotherPage(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "":
		return r.Header.Get("Origin") != ""
	case "none", "same-origin":
		return false
	}
	return true
}

func addressedByIP(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil
}
