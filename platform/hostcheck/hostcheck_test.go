package hostcheck_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/platform/hostcheck"
)

func TestGuard_RejectsOtherHostsAndOrigins(t *testing.T) {
	g, err := hostcheck.NewGuard([]string{"Query-API", "*.muster.svc"})
	require.NoError(t, err)
	for _, c := range []struct {
		host     string
		header   map[string]string
		rejected bool
	}{
		{host: "127.0.0.1:8082"}, {host: "127.0.0.1"}, {host: "[::1]:8082"}, {host: "[::1]"}, {host: "localhost:8082"},
		{host: "LOCALHOST"}, {host: "10.1.2.3:8082"}, {host: "[fe80::1%25eth0]:8082"},
		{host: "query-api:8082"}, {host: "QUERY-API."}, {host: "pod-0.muster.svc:8082"},
		{host: "", rejected: true}, {host: "evil.example", rejected: true}, {host: "evil.example:8082", rejected: true},
		{host: "127.0.0.1.evil.example", rejected: true}, {host: "localhost.evil.example", rejected: true},
		{host: "muster.svc", rejected: true}, {host: ".muster.svc", rejected: true},
		{host: "evilmuster.svc", rejected: true}, {host: "2130706433", rejected: true},
		{host: "0x7f.1", rejected: true},
		{host: "query-api.evil.example", rejected: true},
		{host: "127.0.0.1:8082", header: map[string]string{"Origin": "http://127.0.0.1:8082"}},
		{
			host:   "query-api:8082",
			header: map[string]string{"Origin": "http://query-api:8082", "Sec-Fetch-Site": "same-origin"},
		},
		{host: "127.0.0.1:8082", header: map[string]string{"Sec-Fetch-Site": "none"}},
		{host: "127.0.0.1:8082", header: map[string]string{"Origin": "http://evil.example"}, rejected: true},
		{host: "127.0.0.1:8082", header: map[string]string{"Origin": "http://127.0.0.1:8080"}, rejected: true},
		{host: "127.0.0.1:8082", header: map[string]string{"Origin": "null"}, rejected: true},
		{
			host:     "127.0.0.1:8082",
			header:   map[string]string{"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"},
			rejected: true,
		},
		{
			host:     "127.0.0.1:8082",
			header:   map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
			rejected: true,
		},
		{host: "127.0.0.1:8082", header: map[string]string{"Sec-Fetch-Site": "same-site"}, rejected: true},
		{host: "127.0.0.1:8082", header: map[string]string{
			"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document",
		}},
		{
			host: "127.0.0.1:8082",
			header: map[string]string{
				"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe",
			},
			rejected: true,
		},
	} {
		r := httptest.NewRequest(http.MethodGet, "/status.json", nil)
		r.Host = c.host
		for name, value := range c.header {
			r.Header.Set(name, value)
		}
		require.Equal(t, c.rejected, g.Refusal(r) != "", "%s %v", c.host, c.header)
	}
}

func TestNewGuard_RejectsInvalidNames(t *testing.T) {
	for _, name := range []string{"", "*", "*.", "query-api:8082", "http://query-api", "a.*.b"} {
		_, err := hostcheck.NewGuard([]string{name})
		require.Error(t, err, name)
	}
}
