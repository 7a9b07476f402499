package browsertest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// The npm package of axe-core and the hash of its archive.
const (
	axePackage = "axe-core@4.14.1"
	axeHash    = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
)

// Axe provides the script of axe-core, which npm fetches once.
type Axe struct {
	once   sync.Once
	script string
}

func (a *Axe) fetch(t testing.TB) string {
	t.Helper()
	a.once.Do(func() {
		dir := t.TempDir()
		//nolint:gosec // a folder of the test and a constant
		cmd := exec.CommandContext(t.Context(), "npm", "pack", "--silent", "--pack-destination", dir, axePackage)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "npm pack %s: %s", axePackage, out)
		archives, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
		require.NoError(t, err)
		require.Len(t, archives, 1)
		packed, err := os.ReadFile(archives[0])
		require.NoError(t, err)
		sum := sha512.Sum512(packed)
		require.Equal(t, axeHash, base64.StdEncoding.EncodeToString(sum[:]), axePackage)
		plain, err := gzip.NewReader(bytes.NewReader(packed))
		require.NoError(t, err)
		for files := tar.NewReader(plain); ; {
			header, err := files.Next()
			require.NoError(t, err, "no axe.min.js in %s", axePackage)
			if header.Name == "package/axe.min.js" {
				script, err := io.ReadAll(files)
				require.NoError(t, err)
				a.script = string(script)
				return
			}
		}
	})
	require.NotEmpty(t, a.script, "could not fetch %s", axePackage)
	return a.script
}

// Accessible requires that axe-core finds nothing serious or critical on the current page, in light and dark mode. The
// mode is light afterwards.
func (tab *Tab) Accessible(axe *Axe) {
	tab.t.Helper()
	tab.Scheme(true)
	tab.accessible(axe, "dark")
	tab.Scheme(false)
	tab.accessible(axe, "light")
}

func (tab *Tab) accessible(axe *Axe, scheme string) {
	tab.t.Helper()
	tab.Do("load axe-core", chromedp.Evaluate(axe.fetch(tab.t)+"; undefined", nil))
	var found string
	tab.Do("run axe-core", chromedp.Evaluate(`axe.run(document, {resultTypes: ["violations"]}).then((r) => r.violations
		.filter((v) => v.impact === "serious" || v.impact === "critical")
		.map((v) => v.impact + " " + v.id + ": " + v.help + "\n" + v.nodes.slice(0, 8).map((n) => "  " + n.target.join(" ") + "\n    " + n.html.slice(0, 200) + "\n    " + (n.any[0]?.message ?? "")).join("\n")).join("\n"))`, &found, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	if found != "" { // no FailNow, so that both modes are checked
		tab.t.Errorf("%s, %s: axe-core found\n%s", tab.Eval("location.href"), scheme, found)
	}
}
