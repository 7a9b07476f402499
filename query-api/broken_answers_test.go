package queryapi_test

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/platform/polltest"
	queryapi "muster/query-api"
	"muster/schemas/event"
	"muster/schemas/record"
)

// outcome waits for the usage event of a call.
func (f *fixture) outcome(id string) (u event.Usage) {
	f.t.Helper()
	polltest.Until(f.t, waitTimeout, func() bool {
		_, err := bus.Read(f.t.Context(), f.bus, event.TopicUsage, nil, func(m kafka.Message) error {
			var e event.Usage
			if err := json.Unmarshal(m.Value, &e); err != nil {
				return err
			}
			if e.RequestID == id {
				u = e
			}
			return nil
		})
		require.NoError(f.t, err)
		return u.RequestID != ""
	}, "the ledger does not have %s", id)
	return u
}

// bulk inserts people with incompressible records, larger than socket buffers, and returns a body that requests all.
func (f *fixture) bulk(people int) (list string) {
	f.t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	var records, names []string
	for i := range people {
		summary := make([]byte, 64<<10)
		for i := range summary {
			summary[i] = byte(random.UintN(256))
		}
		name := fmt.Sprintf("octavia%d", i)
		names = append(names, strconv.Quote(name))
		records = append(records,
			networkPerson(fmt.Sprintf("p%d", i), name, "2026-01-01", `"summary":"`+hex.EncodeToString(summary)+`"`))
	}
	f.insert(record.KindNetworkPerson, records...)
	return `{"network":[` + strings.Join(names, ",") + `]}`
}

// brokenCall is a call whose client stops reading.
type brokenCall struct {
	id     string // request ID
	status int
	read   int64 // records read, at least in part
	conn   *net.TCPConn
}

// readPart makes a call and reads the given number of bytes of its body.
func (f *fixture) readPart(path, body string, header map[string]string, bytes int64) brokenCall {
	f.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(f.t.Context(), "tcp", strings.TrimPrefix(f.service.URL(), "http://"))
	require.NoError(f.t, err)
	tcp := conn.(*net.TCPConn)
	require.NoError(f.t, tcp.SetReadBuffer(64<<10))
	req, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, "http://x"+path, strings.NewReader(body))
	require.NoError(f.t, err)
	req.Header = http.Header{"Authorization": {"Bearer " + f.key}, "Content-Type": {"application/json"}}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	require.NoError(f.t, req.Write(conn))
	resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 4<<10), req)
	require.NoError(f.t, err)
	require.Equal(f.t, header["Accept-Encoding"], resp.Header.Get("Content-Encoding"))
	part := io.LimitReader(resp.Body, bytes)
	switch {
	case bytes == 0:
	case header["Accept-Encoding"] == "gzip":
		part, err = gzip.NewReader(part)
	case header["Accept-Encoding"] == "zstd":
		part, err = zstd.NewReader(part)
	}
	require.NoError(f.t, err)
	text, err := io.ReadAll(part)
	if err != nil {
		require.ErrorIs(f.t, err, io.ErrUnexpectedEOF)
	}
	return brokenCall{resp.Header.Get("X-Request-Id"), resp.StatusCode, int64(strings.Count(string(text), `"summary"`)),
		tcp}
}

func (c brokenCall) reset(t *testing.T) {
	t.Helper()
	require.NoError(t, c.conn.SetLinger(0))
	require.NoError(t, c.conn.Close())
}

func TestBrokenAnswer_IsChargedForSentRecords(t *testing.T) {
	f := start(t, nil)
	const people = 100
	list := f.bulk(people)
	var used int64
	for name, c := range map[string]struct {
		path, body, encoding string
		bytes                int64
	}{
		"list":         {networkPath, list, "", 4 << 20},
		"list, gzip":   {networkPath, list, "gzip", 2 << 20},
		"list, zstd":   {networkPath, list, "zstd", 2 << 20},
		"search":       {"/v1/person/search", `{"query":{"match_all":{}},"size":100}`, "", 4 << 20},
		"search, gzip": {"/v1/person/search", `{"query":{"match_all":{}},"size":100}`, "gzip", 2 << 20},
		"nothing read": {networkPath, list, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			header := map[string]string{}
			if c.encoding != "" {
				header["Accept-Encoding"] = c.encoding
			}
			broken := f.readPart(c.path, c.body, header, c.bytes)
			broken.reset(t)
			u := f.outcome(broken.id)
			require.Equal(t, http.StatusOK, u.Status)
			require.Equal(t, c.bytes > 0, broken.read > 10)
			require.GreaterOrEqual(t, u.Credits, broken.read-5, "records read, less the hourly allowance")
			require.Less(t, u.Credits, int64(people), "unsent records are free")
			whole := f.do(http.MethodPost, c.path, c.body, nil)
			require.Equal(t, people, charged(t, whole))
			used += u.Credits + people
			f.spends(used)
		})
	}
}

func TestBrokenAnswer_IsReplayedWithoutAnotherCharge(t *testing.T) {
	f := start(t, nil)
	const people = 100
	body := f.bulk(people)
	var used int64
	for _, given := range []bool{false, true} {
		key := "given-" + strconv.FormatBool(given)
		broken := f.readPart(networkPath, body, idempotent(key), 1<<20)
		if given {
			got := f.do(http.MethodPost, networkPath, body, idempotent(key))
			require.Equal(t, "true", got.header.Get("Idempotent-Replayed"))
			require.Len(t, got.list(), people)
		}
		broken.reset(t)
		u := f.outcome(broken.id)
		require.Equal(t, event.OutcomeCharged, u.Outcome)
		require.EqualValues(t, people, u.Credits)
		f.readPart(networkPath, body, idempotent(key), 1<<20).reset(t)
		again := f.do(http.MethodPost, networkPath, body, idempotent(key))
		require.Len(t, again.list(), people)
		require.Zero(t, charged(t, again))
		used += people
		f.spends(used)
	}
}

func TestLargeAnswers_LeaveMemoryToOtherOrganizations(t *testing.T) {
	f := start(t, func(c *queryapi.Config, _ *queryapi.Deps) {
		c.ResponseBytes, c.ReadGrace, c.MinReadRate = 40<<20, 2*time.Second, 4<<20
	})
	body := f.bulk(100) // 13 MiB, of which 4 MiB are not counted
	organization, err := f.accounts.CreateOrganization(t.Context(), "Other", event.PlanDevelopment)
	require.NoError(t, err)
	_, secret, err := f.accounts.CreateKey(t.Context(), organization.ID, queryapi.KeyOptions{})
	require.NoError(t, err)
	other := map[string]string{"Authorization": "Bearer " + secret.Reveal()}
	waitForStatus(t, http.StatusOK,
		func() response { return f.do(http.MethodPost, networkPath, `{"network":["octavia1"]}`, other) })
	var slow []brokenCall
	refused := 0
	for range 6 {
		c := f.readPart(networkPath, body, nil, 0)
		if c.status == http.StatusInternalServerError {
			refused++
		}
		slow = append(slow, c)
	}
	require.Positive(t, refused, "one organization gets at most half of the memory")
	require.Less(t, refused, 6)
	for range 3 {
		r := f.do(http.MethodPost, networkPath, body, other)
		require.Equal(t, http.StatusOK, r.status, "another organization gets a response")
		require.Len(t, r.list(), 100)
	}
	require.Equal(t, http.StatusOK, f.post(networkPath, `{"network":["octavia1"]}`).status,
		"small answers are not counted")
	waitForStatus(t, http.StatusOK, func() response { return f.post(networkPath, body) }) // they were cut off
	for _, c := range slow {
		require.NoError(t, c.conn.Close())
	}
}
