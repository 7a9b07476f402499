package facade

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/url"

	"muster/platform/engine/internal/chdb"
	"muster/platform/hostcheck"
)

// User is an account of the server.
type User struct {
	Name     string
	Password string // empty: no password is required
	// Analyst restricts the user to reading tables: no writes, files, other hosts or programs, and only settings of an
	// allow list.
	Analyst bool
	// Databases are the databases that an analyst may read; the first one is the default database. Empty: all.
	Databases []string
}

// authenticate returns the user of a request. Credentials are passed in one of ClickHouse's three ways: basic
// authentication, the X-ClickHouse-User and -Key headers, or the user and password parameters. Without credentials the
// user is "default".
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
		return nil, errAuthenticationFailed.errorf("Invalid authentication: " +
			"the request has credentials in more than one form")
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
		case !hostcheck.IsAddress(r.Host):
			// A page in the operator's browser could otherwise reach this address under its own host name (DNS
			// rebinding).
			return nil, errAuthenticationFailed.errorf("Requests without a password must address the server " +
				"as localhost or by its IP address")
		case hostcheck.IsCrossOrigin(r):
			return nil, errAuthenticationFailed.errorf("Requests without a password " +
				"must not come from a page of another origin")
		}
		return u, nil
	}
	return nil, errAuthenticationFailed.errorf("%s: Authentication failed: "+
		"password is incorrect, or there is no user with such name", name)
}

// equal compares in constant time.
func equal(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
