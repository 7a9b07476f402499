//go:build docs

package e2e_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// receive starts a webhook endpoint that answers 410 at /gone.
func receive(t *testing.T) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/gone" {
			w.WriteHeader(http.StatusGone)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// dropPlatform starts a stand-in for California's platform: it serves a download, and accepts responses.
func dropPlatform(t *testing.T, zip string) (url, key string) {
	t.Helper()
	key = "a key"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("X-Api-Key") != key:
			http.Error(w, `{"detail": "no key"}`, http.StatusUnauthorized)
		case r.Method == http.MethodGet && r.URL.Path == "/data/download":
			http.ServeFile(w, r, zip)
		case r.Method == http.MethodPost && r.URL.Path == "/data/upload":
			file, header, err := r.FormFile("files")
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			defer func() { _ = file.Close() }()
			text, err := io.ReadAll(file)
			if err != nil || filepath.Ext(header.Filename) != ".csv" || len(text) == 0 {
				http.Error(w, `{"detail": "no list"}`, http.StatusBadRequest)
			}
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	_, err := os.Stat(zip)
	require.NoError(t, err)
	return server.URL, key
}
