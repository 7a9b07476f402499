package queryapi_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/platform/polltest"
	"muster/schemas/event"
	"muster/schemas/record"
)

// outcome waits for what the ledger says of a call.
func (f *fixture) outcome(id string) (u event.Usage) {
	f.t.Helper()
	polltest.Until(f.t, patience, func() bool {
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

// A call whose connection breaks before its answer has left is not charged, and is made
// again under its Idempotency-Key. When another connection was given the stored answer
// meanwhile, it is, and the answer stays.
func TestAnswerGivenToAnotherConnection(t *testing.T) {
	f := start(t, nil)
	const people = 100
	var records, names []string
	for i := range people { // far more than sockets take
		name := fmt.Sprintf("octavia%d", i)
		names = append(names, strconv.Quote(name))
		records = append(records, networkPerson(fmt.Sprintf("p%d", i), name, "2026-01-01", `"summary":"`+strings.Repeat("lorem ipsum ", 7000)+`"`))
	}
	f.insert(record.KindNetworkPerson, records...)
	body := `{"network":[` + strings.Join(names, ",") + `]}`
	var used int64
	for _, given := range []bool{false, true} {
		key := "given-" + strconv.FormatBool(given)
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(f.service.URL(), "http://"))
		require.NoError(t, err)
		tcp := conn.(*net.TCPConn)
		require.NoError(t, tcp.SetReadBuffer(8<<10))
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nIdempotency-Key: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			networkPath, f.key, key, len(body), body)
		require.NoError(t, err)
		answer := textproto.NewReader(bufio.NewReaderSize(conn, 4<<10))
		_, err = answer.ReadLine()
		require.NoError(t, err)
		header, err := answer.ReadMIMEHeader()
		require.NoError(t, err)
		if given {
			got := f.do(http.MethodPost, networkPath, body, idempotent(key))
			require.Equal(t, "true", got.header.Get("Idempotent-Replayed"))
			require.Len(t, got.list(), people)
		}
		require.NoError(t, tcp.SetLinger(0))
		require.NoError(t, tcp.Close())

		u := f.outcome(header.Get("X-Request-Id"))
		again := f.do(http.MethodPost, networkPath, body, idempotent(key))
		require.Len(t, again.list(), people)
		if given {
			require.Equal(t, event.OutcomeCharged, u.Outcome)
			require.EqualValues(t, people, u.Credits)
			require.Zero(t, charged(t, again))
		} else {
			require.Equal(t, event.OutcomeUnanswered, u.Outcome)
			require.Equal(t, people, charged(t, again))
		}
		used += people
		f.spends(used)
	}
}
