package browsertest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// Env is the environment variable with the path of the browser.
const Env = "MUSTER_TEST_CHROMIUM"

// stepTimeout is the maximum duration of a step in the browser.
const stepTimeout = 30 * time.Second

// Tab is a page in a separate browser.
type Tab struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	problems []string
	asked    []string
}

// Open starts a browser with a window of the given size in pixels, in dark or light mode.
func Open(t testing.TB, width, height int, dark bool) *Tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(width, height),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("hide-scrollbars", true),
	)
	if path := os.Getenv(Env); path != "" {
		options = append(options, chromedp.ExecPath(path))
	}
	allocator, end := chromedp.NewExecAllocator(t.Context(), options...)
	ctx, closeTab := chromedp.NewContext(allocator)
	tab := &Tab{t: t, ctx: ctx}
	t.Cleanup(func() {
		closeTab()
		end()
		if a := chromedp.FromContext(ctx).Allocator; a != nil {
			a.Wait()
		}
	})
	chromedp.ListenTarget(ctx, tab.note)
	tab.Do("start the browser: is Debian's package chromium installed?", network.Enable(), log.Enable(),
		runtime.Enable(), scheme(dark))
	return tab
}

// Scheme switches to dark or light mode.
func (tab *Tab) Scheme(dark bool) {
	tab.t.Helper()
	tab.Do("change the color scheme", scheme(dark))
}

func scheme(dark bool) chromedp.Action {
	name := "light"
	if dark {
		name = "dark"
	}
	return emulation.SetEmulatedMedia().WithFeatures(
		[]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}})
}

// note records problems and requests of the page.
func (tab *Tab) note(event any) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	switch e := event.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError || e.Entry.Source == log.SourceSecurity {
			tab.problems = append(tab.problems, e.Entry.Text+" "+e.Entry.URL)
		}
	case *runtime.EventExceptionThrown:
		tab.problems = append(tab.problems, e.ExceptionDetails.Error())
	case *network.EventRequestWillBeSent:
		tab.asked = append(tab.asked, e.Request.URL)
	}
}

// Do runs steps. Each has a timeout of half a minute.
func (tab *Tab) Do(what string, steps ...chromedp.Action) {
	tab.t.Helper()
	// The browser runs under the context of the first step, which must not end it.
	done := make(chan error, 1)
	go func() { done <- chromedp.Run(tab.ctx, steps...) }()
	select {
	case err := <-done:
		require.NoError(tab.t, err, what)
	case <-time.After(stepTimeout):
		cancelled := chromedp.Cancel(tab.ctx)
		require.Fail(tab.t, "the browser timed out: "+what, "ended with %v (cancelling: %v); problems: %s", <-done,
			cancelled, tab.Problems())
	}
}

// Eval evaluates JavaScript in the page and returns its value as a string.
func (tab *Tab) Eval(script string) string {
	tab.t.Helper()
	var value string
	tab.Do(script,
		chromedp.Evaluate("String("+script+")", &value, func(p *runtime.EvaluateParams) *runtime.EvaluateParams {
			return p.WithAwaitPromise(true)
		}))
	return value
}

// Eventually waits until a JavaScript expression is true in the page.
func (tab *Tab) Eventually(script string) {
	tab.t.Helper()
	var ok bool
	tab.Do("wait for "+script, chromedp.Poll(script, &ok, chromedp.WithPollingTimeout(stepTimeout)))
}

// Screenshot writes a screenshot to a file if update is set.
func (tab *Tab) Screenshot(path string, update bool) {
	tab.t.Helper()
	// Wait for the end of animations, except endless ones.
	tab.Eventually(
		`document.getAnimations().every((a) => a.playState !== "running" ||
			a.effect.getComputedTiming().iterations === Infinity)`)
	var picture []byte
	tab.Do("take a picture", chromedp.CaptureScreenshot(&picture))
	require.NotEmpty(tab.t, picture)
	if update {
		require.NoError(tab.t, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(tab.t, os.WriteFile(path, picture, 0o600))
	}
}

// Problems returns the errors and policy violations of the page.
func (tab *Tab) Problems() []string {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	return append([]string(nil), tab.problems...)
}

// Strangers returns the requested URLs outside of a server.
func (tab *Tab) Strangers(base string) []string {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	var out []string
	for _, url := range tab.asked {
		if !strings.HasPrefix(url, base) && !strings.HasPrefix(url, "data:") && !strings.HasPrefix(url, "blob:") &&
			url != "about:blank" {
			out = append(out, url)
		}
	}
	return out
}
