package engine_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/platform/engine"
	"muster/platform/engine/enginetest"
)

func TestAnalyst_CannotStarveServices(t *testing.T) {
	e, err := enginetest.Start(t.Context(), func(c *engine.SupervisorConfig) {
		c.Server.MaxConcurrent, c.Server.QueueWait = 8, time.Second
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	ctx, cancel := context.WithCancel(t.Context())
	var analysts sync.WaitGroup
	query := func(ctx context.Context, params, text string) (int, string) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+e.Addr()+"/?max_threads=1"+params,
			strings.NewReader(text))
		if err != nil {
			return 0, err.Error()
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return 0, err.Error()
		}
		return resp.StatusCode, string(body)
	}
	const long = "SELECT count() FROM numbers(1000000000000) WHERE NOT ignore(rand())"
	running := func() string {
		n, err := ask(t.Context(), e.Addr(),
			"SELECT count() FROM system.processes WHERE query LIKE '%numbers(1000000000000)%' "+
				"AND query NOT LIKE '%system.processes%'")
		require.NoError(t, err)
		return n
	}
	var rejected atomic.Int64
	for range 20 {
		analysts.Go(func() {
			if status, _ := query(ctx, "", long); status == http.StatusInternalServerError {
				rejected.Add(1)
			}
		})
	}
	waitFor(t, func() bool { return rejected.Load() == 16 })
	require.Equal(t, "4\n", running())
	begin := time.Now()
	for range 5 {
		_, err := ask(t.Context(), e.Addr(), "SELECT 1")
		require.NoError(t, err)
	}
	require.Less(t, time.Since(begin), 10*time.Second)
	status, body := query(t.Context(), "", "SELECT 1")
	require.Equal(t, http.StatusInternalServerError, status)
	require.Contains(t, body, "Too many simultaneous queries of analysts")
	cancel()
	analysts.Wait()
	waitFor(t, func() bool { return running() == "0\n" })

	waitFor(t, func() bool { status, _ := query(t.Context(), "", "SELECT 1"); return status == http.StatusOK })

	_, one := query(t.Context(), "", "SELECT getSetting('max_memory_usage')")
	all, err := ask(t.Context(), e.Addr(),
		"SELECT value FROM system.server_settings WHERE name = 'max_server_memory_usage'")
	require.NoError(t, err)
	limit, err := strconv.ParseInt(strings.TrimSpace(one), 10, 64)
	require.NoError(t, err)
	memory, err := strconv.ParseInt(strings.TrimSpace(all), 10, 64)
	require.NoError(t, err)
	require.Positive(t, limit)
	require.LessOrEqual(t, 4*limit, memory/2)
}

func TestAnalyst_SlowReaderReleasesSlotAfterTimeout(t *testing.T) {
	e, err := enginetest.Start(t.Context(),
		func(c *engine.SupervisorConfig) { c.Server.AnalystTimeout = 10 * time.Second })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	var readers sync.WaitGroup
	t.Cleanup(readers.Wait)
	var ended atomic.Int64
	read := func(format string, rows int) {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", e.Addr())
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, conn.Close()) })
		require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4096))
		text := fmt.Sprintf("SELECT number, repeat('x', 100) FROM numbers(%d) FORMAT %s", rows, format)
		_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n%s", e.Addr(), len(text),
			text)
		require.NoError(t, err)
		begun := make([]byte, len("HTTP/1.1 200 OK"))
		_, err = io.ReadFull(conn, begun) // the slot is taken
		require.NoError(t, err)
		require.Equal(t, "HTTP/1.1 200 OK", string(begun))
		readers.Go(func() { // until the engine ends it
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for range tick.C {
				if _, err := conn.Read(begun[:1]); err != nil {
					ended.Add(1)
					return
				}
			}
		})
	}
	one := func() {
		resp, err := http.Post("http://"+e.Addr()+"/", "", strings.NewReader("SELECT 1"))
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "1\n", string(body))
	}
	begin := time.Now()
	for range 3 {
		read("TabSeparated", 3_000_000) // which is sent part by part
	}
	one()
	require.Zero(t, ended.Load(), "a slot is free only after a reader has lost its own")
	read("JSON", 300_000) // which is sent as one, and is more than the sockets hold
	one()
	require.Less(t, time.Since(begin), time.Minute)
}
