//go:build browser

package e2e_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/deploy/e2e/internal/browsertest"
	"muster/deploy/internal/status/page"
)

// New records and a rejected one appear without a reload.
func TestBrowserStatus_UpdatesItself(t *testing.T) {
	p := start(t, t.TempDir(), "--sample", "200")
	tab := browsertest.Open(t, 1500, 1700, false)
	tab.Do("open the status page", chromedp.Navigate(p.AdminURL+"/"))
	tab.Eventually(`document.getElementById("summary").textContent === "All services ready"`)
	tab.Eventually(`document.querySelectorAll("#models tbody tr").length > 5`)
	tab.Eventually(`document.getElementById("rates").innerText.includes("/s")`)

	records := filepath.Join(t.TempDir(), "people.ndjson")
	require.NoError(t, os.WriteFile(records, []byte(`{"profile_id":"new1","username":"person-new",`+
		`"last_updated":"2026-11-20"}
{"profile_id":"bad1","last_updated":"2026-11-20"}
`), 0o600))
	got, err := muster(t.Context(), p.dataDir, "ingest", "network-person", records)
	require.NoError(t, err)
	require.Equal(t, 1, got.status, "one record is rejected")
	tab.Eventually(`document.querySelector("#runs tbody").innerText.includes("network-person")`)
	tab.Eventually(`document.querySelector("#letters tbody tr td.warn")?.innerText === "1"`)
	got, err = muster(t.Context(), p.dataDir, "erase", "network_username=person-new")
	require.NoError(t, err)
	require.Zero(t, got.status)
	tab.Eventually(`[...document.querySelectorAll("#erasures td.n")].some((td) => td.innerText === "2")`) // and the sample's
	require.NotContains(t, tab.Eval(`document.getElementById("services").innerText`), "start")
	require.Regexp(t, `ingest\s+ready\s+\d+ s`, tab.Eval(`document.querySelector("#services").innerText`))

	// The history has its first points after 15 and 30 seconds.
	callDocs := func() {
		for range 10 {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.BaseURL+"/docs", nil)
			require.NoError(t, err)
			resp, err := http.DefaultClient.Do(request)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
		}
	}
	callDocs()
	tab.Eventually(`document.querySelectorAll("#charts figure").length === 6`)
	callDocs()
	tab.Eventually(`document.querySelector("#charts path").getAttribute("d").includes("L")`)
	require.Regexp(t, `^API latency, now: p50 [–\d].*, at most \d.*ms; p99 `,
		tab.Eval(`document.querySelectorAll("#charts svg")[3].getAttribute("aria-label")`))
	shoot(t, tab, "status.png")
	tab.Accessible(&axe)
	tab.Scheme(true)
	tab.Accessible(&axe)
	for _, width := range []int64{1500, 480} {
		tab.Do("resize the window", chromedp.EmulateViewport(width, 1200))
		require.Equal(t, "true", tab.Eval("document.documentElement.scrollWidth <= innerWidth"), "%d pixels", width)
	}
	require.Empty(t, tab.Problems())
	require.Empty(t, tab.Strangers(p.AdminURL))
}

// The document is complete, and frequent requests are cheap.
func TestBrowserStatus_DocumentIsCached(t *testing.T) {
	p := start(t, t.TempDir(), "--sample", "50")
	var d page.Document
	for range 50 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.AdminURL+"/status.json", nil)
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
		d = page.Document{}
		require.NoError(t, json.Unmarshal(body, &d))
	}
	require.Empty(t, d.Problems)
	require.NotEmpty(t, d.Services)
	require.NotEmpty(t, d.ReadModels)
	require.NotEmpty(t, d.Freshness)
	require.NotEmpty(t, d.Topics)
	require.Positive(t, d.Counters.Projected)
	require.Positive(t, d.Counters.Published)
	for _, topic := range d.Topics {
		require.True(t, strings.HasPrefix(topic.Topic, "muster."), topic.Topic)
	}
}

// It has the lag of all consumers, and table sizes if the service has a ClickHouse connection.
func TestBrowserStatus_ServesASingleService(t *testing.T) {
	p := start(t, t.TempDir(), "--sample", "50")
	for service, counted := range map[string]bool{"projector": true, "webhook-sender": false} {
		ctx, cancel := context.WithCancel(t.Context())
		admin := freeAddrs(t, 1)[0]
		cmd := exec.CommandContext(ctx, binary, "run", service, "--data-dir", t.TempDir(), "--admin-addr", admin)
		cmd.Env = p.serviceEnv(t)
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.SysProcAttr = dieWithParent()
		require.NoError(t, cmd.Start())
		eventually(t, time.Minute, func() (bool, string) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/readyz", nil)
			require.NoError(t, err)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return false, err.Error()
			}
			_ = resp.Body.Close()
			return resp.StatusCode == http.StatusOK, resp.Status
		})
		tab := browsertest.Open(t, 1500, 1250, false)
		tab.Do("open the status page", chromedp.Navigate("http://"+admin+"/"))
		tab.Eventually(`document.querySelector("h1").textContent === "muster ` + service + `"`)
		tab.Eventually(`document.getElementById("summary").textContent === "Ready"`)
		tab.Eventually(`document.querySelector("#topics tbody").innerText.includes("event.usage.v1")`)
		tab.Eventually(`document.querySelector("#topics tbody").innerText.includes("discovery-worker.tasks")`)
		if counted {
			tab.Eventually(`document.querySelectorAll("#models tbody tr").length > 5`)
		} else {
			tab.Eventually(`document.querySelector("#models tbody").innerText.includes("not counted here")`)
		}
		tab.Eventually(`document.getElementById("charts").innerText.includes("Free disk space")`)
		require.NotContains(t, tab.Eval(`document.getElementById("charts").innerText`), "API", "not measured here")
		require.Empty(t, tab.Problems())
		cancel()
		_ = cmd.Wait()
	}
}
