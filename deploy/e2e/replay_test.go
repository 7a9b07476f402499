package e2e_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/deploy/e2e/internal/oracle"
	"muster/schemas/readmodel"
)

// A first replay is interrupted, and the next one resumes it. No request fails, and no response is wrong.
func TestReplay_RebuildsAllReadModelsDuringCalls(t *testing.T) {
	t.Parallel()
	people, end := 2000, os.Kill
	if testing.Short() {
		people, end = 150, os.Interrupt // a killed replay counts as running for 30 s
	}
	drawn := seed(t)
	rng := rand.New(rand.NewPCG(drawn, 8))
	world := generate(t, people, drawn)
	p := start(t, newDataDir(t), "--no-sample")
	ingestAll(t, p, world)
	store, tr := load(t, world), readTruth(t, world)
	c := newChecker(p, store)
	var requests []oracle.PersonRequest
	for _, e := range tr.emails {
		requests = append(requests, oracle.PersonRequest{Email: e.address, Websets: both})
	}
	for _, h := range tr.handles["codehost"] {
		requests = append(requests, oracle.PersonRequest{Codehost: h.name, Websets: both})
	}
	rng.Shuffle(len(requests), func(a, b int) { requests[a], requests[b] = requests[b], requests[a] })

	ctx, done := context.WithCancel(t.Context())
	asked := make(chan error, 1)
	go func() {
		var err error
		for i := 0; err == nil && ctx.Err() == nil; i++ {
			err = c.person(t.Context(), requests[i%len(requests)])
		}
		asked <- err
	}()

	unfinished := exec.CommandContext(t.Context(), binary, "--data-dir", p.dataDir, "--log-format", "text", "replay")
	var log output
	unfinished.Env, unfinished.Stderr, unfinished.SysProcAttr = environment(), &log, dieWithParent()
	require.NoError(t, unfinished.Start())
	eventually(t, startTimeout, func() (bool, string) {
		return strings.Contains(log.String(), "Comparing codehost_people"), "the comparison has not started"
	})
	require.NoError(t, unfinished.Process.Signal(end))
	require.Error(t, unfinished.Wait())

	for range 2 {
		began := time.Now()
		out := p.muster(t, "replay")
		t.Logf("replay took %s:\n%s", time.Since(began).Round(time.Millisecond), out)
	}
	done()
	require.NoError(t, <-asked)
	require.Empty(t, c.problems)
	require.Zero(t, c.repeated.Load(), "retried requests")
	t.Logf("%d requests during the replay", c.requests.Load())

	require.Equal(t, 2*len(readmodel.Tables()),
		bytes.Count([]byte(p.muster(t, "replay", "--drop-old")), []byte("dropped ")))
	network := askedHandles(tr.handles["network"])
	check(t, c, listCallers, batches(network, "codehost"), c.network)
	for kind, where := range tables {
		t.Run(kind, func(t *testing.T) { requireNewest(t, p, kind, where.table, where.identity, store.Newest(kind)) })
	}
	p.stop(t)
}
