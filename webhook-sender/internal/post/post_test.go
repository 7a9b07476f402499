package post_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/webhook-sender/internal/post"
)

func loopback() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }

// Receivers of every kind answer over real HTTP. A silent one times out.
func TestClient_ClassifiesResponses(t *testing.T) {
	var redirected atomic.Int32
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { redirected.Add(1) }))
	t.Cleanup(target.Close)
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		want   post.Result
	}{
		"200": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "thanks")
		}, post.Result{Status: 200}},
		"204": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, post.Result{Status: 204}},
		"301": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", target.URL)
			w.WriteHeader(301)
		}, post.Result{Status: 301, Class: post.ClassRedirect}},
		"307 to metadata": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://169.254.169.254/latest/meta-data")
			w.WriteHeader(307)
		}, post.Result{Status: 307, Class: post.ClassRedirect}},
		"404": {http.NotFound, post.Result{Status: 404, Class: post.ClassStatus, Excerpt: "404 page not found"}},
		"410": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(410) },
			post.Result{Status: 410, Class: post.ClassGone}},
		"429 in seconds": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(429)
		}, post.Result{Status: 429, Class: post.ClassStatus, RetryAfter: 2 * time.Minute}},
		"503 for ever": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "99999999999999999")
			w.WriteHeader(503)
		}, post.Result{Status: 503, Class: post.ClassStatus, RetryAfter: 24 * time.Hour}},
		"503 until yesterday": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "Fri, 01 Jan 2021 00:00:00 GMT")
			w.WriteHeader(503)
		}, post.Result{Status: 503, Class: post.ClassStatus, RetryAfter: time.Second}},
		"503 with nonsense": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "-5")
			w.WriteHeader(503)
		}, post.Result{Status: 503, Class: post.ClassStatus}},
		"500 with an echo": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			_, _ = io.WriteString(w,
				"cannot store\n Ada at ada@example.com, key 0123456789abcdef0123456789abcdef, phone +1 (415) 555-0100")
		}, post.Result{Status: 500, Class: post.ClassStatus,
			Excerpt: "cannot store Ada at [e-mail], key [token], [phone] +1 ([number]"}},
		"nothing": {func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		}, post.Result{Class: post.ClassTimeout}},
		"a body of one byte a while": {func(w http.ResponseWriter, r *http.Request) { drip(w, r, 200) },
			post.Result{Status: 200}},
		"10 MB": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			_, _ = io.WriteString(w, strings.Repeat("no ", 10<<20/3))
		}, post.Result{Status: 500, Class: post.ClassStatus, Excerpt: strings.Repeat("no ", 169) + "no…"}},
		"a reset": {func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_ = c.(*net.TCPConn).SetLinger(0)
				_ = c.Close()
			}
		}, post.Result{Class: post.ClassReset}},
		"headers without end": {func(w http.ResponseWriter, _ *http.Request) {
			for i := range 1000 {
				w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 1000))
			}
		}, post.Result{Class: post.ClassOther}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // a server detects a disconnect only after reading the body
				tt.answer(w, r)
			}))
			t.Cleanup(server.Close)
			limit := 30 * time.Second
			if tt.want.Class == post.ClassTimeout {
				limit = time.Second
			}
			c := post.New(post.Config{Allow: loopback(), Timeout: limit})
			t.Cleanup(c.Close)
			begin := time.Now()
			got := c.Post(t.Context(), server.URL, http.Header{}, []byte(`{"name":"Ada","phone":1}`))
			require.Less(t, time.Since(begin), 20*time.Second)
			require.Positive(t, got.Duration)
			got.Duration = 0
			// "Ada" is too short to be an echo.
			if name == "500 with an echo" {
				require.NotContains(t, got.Excerpt, "555")
				require.NotContains(t, got.Excerpt, "ada@")
				require.NotContains(t, got.Excerpt, "0123456789abcdef")
				require.NotContains(t, got.Excerpt, "phone ")
				got.Excerpt = tt.want.Excerpt
			}
			require.Equal(t, tt.want, got)
		})
	}
	t.Cleanup(func() { require.Zero(t, redirected.Load(), "a redirect was followed") })
}

// drip sends a status and then one byte at a time.
func drip(w http.ResponseWriter, r *http.Request, status int) {
	w.WriteHeader(status)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
			if _, err := w.Write([]byte("x")); err != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
	}
}

func TestClient_TimesOutOnSlowStatusLine(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for _, b := range []byte("HTTP/1.1 200 OK\r\n\r\n") {
			<-tick.C
			if _, err := conn.Write([]byte{b}); err != nil {
				break
			}
		}
		_ = conn.Close()
	}()
	c := post.New(post.Config{Allow: loopback(), Timeout: 500 * time.Millisecond})
	defer c.Close()
	r := c.Post(t.Context(), "http://"+l.Addr().String(), http.Header{}, nil)
	require.Equal(t, post.ClassTimeout, r.Class)
	<-done
	require.NoError(t, l.Close())
}

func TestClient_VerifiesCertificates(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	t.Cleanup(server.Close)
	strict := post.New(post.Config{Allow: loopback()})
	defer strict.Close()
	require.Equal(t, post.ClassTLS, strict.Post(t.Context(), server.URL, http.Header{}, nil).Class)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	trusting := post.New(post.Config{Allow: loopback(), RootCAs: roots})
	defer trusting.Close()
	require.True(t, trusting.Post(t.Context(), server.URL, http.Header{}, nil).OK())
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	require.Equal(t, post.ClassTLS, strict.Post(t.Context(), strings.Replace(plain.URL, "http:", "https:", 1),
		http.Header{}, nil).Class)
}

// The names resolve to a listener of the test that counts connections.
func TestClient_RejectsForbiddenAddresses(t *testing.T) {
	var connections atomic.Int32
	count := func(network, address string) int {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), network, address)
		if err != nil {
			return 0 // the machine has no such address, so nothing can connect to it
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				connections.Add(1)
				_ = c.Close()
			}
		}()
		t.Cleanup(func() { _ = l.Close(); <-done })
		return l.Addr().(*net.TCPAddr).Port
	}
	port := count("tcp", ":0") // every address of the machine
	require.NotZero(t, port)
	t.Setenv("HTTPS_PROXY", fmt.Sprintf("http://127.0.0.1:%d", port))
	t.Setenv("HTTP_PROXY", fmt.Sprintf("http://127.0.0.1:%d", port))
	c := post.New(post.Config{Timeout: 20 * time.Second})
	defer c.Close()
	for _, host := range []string{
		"127.0.0.1", "127.1.2.3", "0.0.0.0", "0", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
		"169.254.1.1", "169.254.169.254", "168.63.129.16", "100.100.100.200", "192.80.8.124", "[::ffff:168.63.129.16]",
		"[64:ff9b::a83f:8110]", "100.64.0.1", "100.127.255.254", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.1",
		"203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "192.88.99.1",
		"[::]", "[::1]", "[fe80::1]", "[fe80::1%25lo]", "[fc00::1]", "[fd00:ec2::254]", "[ff02::1]", "[2001:db8::1]",
		"[::ffff:127.0.0.1]", "[::ffff:169.254.169.254]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b:1::7f00:1]",
		"[2002:7f00:1::]", "[2001::7f00:1]", "[100::1]", "[5f00::1]",
		"2130706433", "0x7f000001", "017700000001", "0177.0.0.1", "0x7f.1", "127.1", "localhost", "LOCALHOST.",
	} {
		for _, scheme := range []string{"https", "http"} {
			r := c.Post(t.Context(), fmt.Sprintf("%s://%s:%d/", scheme, host, port), http.Header{}, []byte("x"))
			// A name that the system resolver does not know is not dialed.
			require.Contains(t, []post.Class{post.ClassForbidden, post.ClassResolve, post.ClassURL}, r.Class, "%s %s",
				scheme, host)
			require.Zero(t, r.Status, host)
		}
	}
	require.Zero(t, connections.Load())

	// Public addresses pass the check over HTTPS only. Nothing is sent, because the context is
	// canceled.
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	require.NotEqual(t, post.ClassForbidden, c.Post(canceled, "https://1.1.1.1/", http.Header{}, nil).Class)
	require.Equal(t, post.ClassForbidden, c.Post(t.Context(), "http://1.1.1.1/", http.Header{}, nil).Class,
		"plain http")
	for _, bad := range []string{"", "ftp://1.1.1.1/", "https://u:p@1.1.1.1/", "https:///x", "%", "https://[::1/"} {
		require.Equal(t, post.ClassURL, c.Post(t.Context(), bad, http.Header{}, nil).Class, bad)
	}
}

// The resolver changes its answers; the last one is checked.
func TestClient_ChecksAddressAtEachDial(t *testing.T) {
	var lookups atomic.Int32
	dns := newResolver(t, func() netip.Addr {
		lookups.Add(1)
		return netip.MustParseAddr("127.0.0.1")
	})
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(t, err)
	c := post.New(post.Config{Resolver: dns, Timeout: 20 * time.Second})
	defer c.Close()
	for range 3 {
		require.Equal(t, post.ClassForbidden,
			c.Post(t.Context(), "https://rebind.example:"+port, http.Header{}, nil).Class)
	}
	require.GreaterOrEqual(t, lookups.Load(), int32(3))
	allowing := post.New(post.Config{Resolver: dns, Allow: loopback(), Timeout: 20 * time.Second})
	defer allowing.Close()
	require.Equal(t, 404, allowing.Post(t.Context(), "http://rebind.example:"+port, http.Header{}, nil).Status)

	// An address that passed once is checked again.
	var changed atomic.Int32
	turning := newResolver(t, func() netip.Addr {
		if changed.Add(1) == 1 {
			return netip.MustParseAddr("127.0.0.1")
		}
		return netip.MustParseAddr("169.254.169.254")
	})
	closing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
	}))
	defer closing.Close()
	_, port, err = net.SplitHostPort(closing.Listener.Addr().String())
	require.NoError(t, err)
	turned := post.New(post.Config{Resolver: turning, Allow: loopback(), Timeout: 20 * time.Second})
	defer turned.Close()
	require.True(t, turned.Post(t.Context(), "http://rebind.example:"+port, http.Header{}, nil).OK())
	for range 2 {
		require.Equal(t, post.ClassForbidden,
			turned.Post(t.Context(), "http://rebind.example:"+port, http.Header{}, nil).Class)
	}
}

// newResolver returns a resolver whose UDP server on loopback answers every A query.
func newResolver(t *testing.T, answer func() netip.Addr) *net.Resolver {
	t.Helper()
	pc, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 512)
		for {
			n, from, err := pc.ReadFrom(buf)
			if errors.Is(err, net.ErrClosed) || err != nil {
				return
			}
			q := buf[:n]
			end := 12
			for q[end] != 0 {
				end += int(q[end]) + 1
			}
			question := q[12 : end+5]
			isA := q[end+2] == 1
			out := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question...)
			if isA {
				out[7] = 1
				ip := answer().As4()
				out = append(out, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
				out = append(out, ip[:]...)
			}
			_, _ = pc.WriteTo(out, from)
		}
	}()
	t.Cleanup(func() { _ = pc.Close(); <-done })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", pc.LocalAddr().String())
	}}
}

// Echoes are redacted in every encoding; the receiver's own words are not.
func TestRedact_RemovesEchoedWords(t *testing.T) {
	body := []byte(`{"full_name":"Bob Lee M\u00fcller","city":"Ulm","age":42,"is_ok":true}`)
	for answer, want := range map[string]string{
		`no such user: Bob Lee of Ulm`:                    `no such user: […] […] of […]`,
		`{"error":"unknown name","got":"M\u00fcller"}`:    `{"error":"unknown […]","got":"[…]"}`,
		`unknown: M&uuml;ller, M&#252;ller`:               `unknown: […], […]`,
		`bad form: q=Bob%20Lee+M%C3%BCller`:               `bad form: q=[…] […]+[…]`,
		`POST /hooks?token=hunter2hunter2+x not found`:    `POST /hooks?[…]=[…]+x not found`,
		`key gr%C3%BC%C3%9Fe&amp;gr\u00fc\u00dfe, 42%`:    `key […]&[…], […]%`,
		`write to ada%40example.com, \ud83d\ude00 \ud83d`: "write to [e-mail], \U0001F600 \uFFFD",
		`is it ok? a b`: `is it ok? a b`,
	} {
		require.Equal(t, want, post.Redact([]byte(answer), body, "token=hunter2hunter2&k=gr%C3%BC%C3%9Fe"), answer)
	}
}

func FuzzRedact(f *testing.F) {
	f.Add([]byte("a@b.c \xff 12345678901 \\u00fc%C3&uuml;"), []byte("body"))
	f.Fuzz(func(t *testing.T, answer, body []byte) {
		s := post.Redact(answer, body, "a=b")
		require.LessOrEqual(t, len(s), 512+8)
		require.True(t, len(s) == 0 || strings.ToValidUTF8(s, "") == s)
		require.NotContains(t, s, "\n")
	})
}
