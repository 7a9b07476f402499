// Package hostcheck protects HTTP servers without authentication from requests by web pages.
//
// A page can reach such a server by DNS rebinding, under its own domain, or by cross-origin requests. A [Guard] rejects
// both: the Host of a request must be an IP address, localhost or a configured name, and the request must not come from
// a page of another origin. Programs do not send Origin headers and are not affected.
package hostcheck

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// IsAddress reports whether a Host header names the server by localhost or an IP address, with or without a port.
func IsAddress(host string) bool {
	host = hostname(host)
	if strings.EqualFold(host, "localhost") {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}

// hostname returns a Host header without port, brackets and trailing dot.
func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimPrefix(strings.TrimSuffix(host, "]"), "[")
	return strings.TrimSuffix(host, ".")
}

// IsCrossOrigin reports whether a browser sent the request for a page of another origin, for example to load a script
// (Fetch Metadata Request Headers, W3C).
func IsCrossOrigin(r *http.Request) bool {
	for _, origin := range r.Header.Values("Origin") {
		if !strings.EqualFold(origin, "http://"+r.Host) && !strings.EqualFold(origin, "https://"+r.Host) {
			return true
		}
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	}
	return true
}

// isNavigation reports whether a user followed a link to the server: the linking page does not see the response.
func isNavigation(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Origin") == "" &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// Guard checks requests. It is safe for concurrent use.
type Guard struct{ names []string }

// NewGuard returns a Guard that accepts names in addition to IP addresses and localhost. A name "*.example.com" matches
// all names below example.com.
func NewGuard(names []string) (*Guard, error) {
	g := &Guard{}
	for _, name := range names {
		name = strings.ToLower(strings.TrimSuffix(strings.TrimSpace(name), "."))
		if base := strings.TrimPrefix(name, "*."); base == "" || strings.ContainsAny(base, "*:/[] ") {
			return nil, fmt.Errorf("invalid host name %q: want a name without a port, or *. followed by a domain", name)
		}
		g.names = append(g.names, name)
	}
	return g, nil
}

// Refusal returns why the request is rejected, as a sentence for its sender, or "" if it is accepted.
func (g *Guard) Refusal(r *http.Request) string {
	switch {
	case !IsAddress(r.Host) && !g.isNamed(r.Host):
		return "the Host of the request is not an IP address, localhost or a configured name of this server: " +
			"use the server's address, or ask its operator to add the name"
	case IsCrossOrigin(r) && !isNavigation(r):
		return "the request comes from a page of another origin: open this address directly"
	}
	return ""
}

func (g *Guard) isNamed(host string) bool {
	host = strings.ToLower(hostname(host))
	return slices.ContainsFunc(g.names, func(name string) bool {
		if domain, ok := strings.CutPrefix(name, "*"); ok {
			return len(host) > len(domain) && strings.HasSuffix(host, domain)
		}
		return host == name
	})
}
