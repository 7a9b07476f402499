package ingest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/ingest"
	"muster/platform/bus"
	"muster/platform/polltest"
	"muster/schemas/event"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

func erasureLine(mail, requested string, withdrawn bool) string {
	return fmt.Sprintf(`{"identifiers":[{"type":"email","value":%q}],"requested_at":%q,"deleted":%t}`+"\n", mail,
		requested, withdrawn)
}

// entries returns the versions of an address's entries, in topic order.
func entries(t *testing.T, cfg bus.Config, deps ingest.Deps, mail string) []string {
	t.Helper()
	h := deps.Suppressed.Key().Of(suppress.Email, mail).String()
	var all []string
	for _, m := range topic(t, cfg, event.TopicErasure) {
		var e suppress.Entry
		require.NoError(t, json.Unmarshal(m.Value, &e))
		if string(m.Key) == h {
			all = append(all, e.RequestedAt)
		}
	}
	return all
}

// Compaction retains the last entry of an address, so an older one must never be stored after a newer one.
func TestErasure_NewestEntryIsStoredLast(t *testing.T) {
	const chunk = 256 << 10
	var text strings.Builder
	for text.Len() < chunk-1<<10 {
		text.WriteString(erasureLine(fmt.Sprintf("a%d@mail.example", text.Len()), "2026-11-01", false))
	}
	text.WriteString(erasureLine("ada@mail.example", "2026-11-20", false))
	for text.Len() < chunk+4<<10 {
		text.WriteString(erasureLine(fmt.Sprintf("b%d@mail.example", text.Len()), "2026-11-01", false))
	}
	old := erasureLine("ada@mail.example", "2026-11-10", true)
	text.WriteString(old) // its chunk is decoded sooner
	long := text.String()
	for name, texts := range map[string][]string{
		"one file":  {long},
		"two files": {strings.TrimSuffix(long, old), old},
	} {
		t.Run(name, func(t *testing.T) {
			for range 3 { // the order of goroutines is random
				cfg, deps := config(t), erasures(t)
				cfg.Workers, cfg.Readers = 2, 2
				var paths []string
				for _, text := range texts {
					paths = append(paths, write(t, "e.ndjson", []byte(text)))
				}
				_, err := ingest.Files(t.Context(), cfg, deps, record.KindErasure, paths)
				require.NoError(t, err)
				require.Equal(t, []string{"2026-11-20"}, entries(t, cfg.Bus, deps, "ada@mail.example"))
			}
		})
	}
}

// The order holds even before the set's follower has received the first push.
func TestPush_ConcurrentErasuresStayInOrder(t *testing.T) {
	cfg, deps := config(t), erasures(t)
	s := serve(t, cfg, deps)
	open := newGate()
	first, second := make(chan answer, 1), make(chan answer, 1)
	go func() { first <- push(t, s, erasurePath, open) }()
	_, err := io.WriteString(open.w, erasureLine("ada@mail.example", "2026-11-20", false))
	require.NoError(t, err)
	polltest.Until(t, 20*time.Second, func() bool { return len(topic(t, cfg.Bus, event.TopicErasure)) == 1 })
	go func() {
		second <- push(t, s, erasurePath, strings.NewReader(erasureLine("ada@mail.example", "2026-11-10",
			true)+erasureLine("eve@mail.example", "2026-11-10", true)))
	}()
	select {
	case <-second:
		require.Fail(t, "erasures of two pushes were compared concurrently")
	case <-time.After(200 * time.Millisecond):
	}
	_, err = io.WriteString(open.w, erasureLine("eve@mail.example", "2026-11-20", false))
	require.NoError(t, err)
	require.NoError(t, open.w.Close())
	require.Equal(t, http.StatusOK, (<-first).status)
	require.Equal(t, http.StatusOK, (<-second).status)
	for _, mail := range []string{"ada@mail.example", "eve@mail.example"} {
		require.Equal(t, []string{"2026-11-20"}, entries(t, cfg.Bus, deps, mail))
	}
}
