package discovery

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"muster/discovery-worker/internal/people"
	"muster/schemas/event"
	"muster/schemas/identity"
)

// recordingPublisher records the published messages.
type recordingPublisher struct{ all []*message.Message }

func (l *recordingPublisher) Publish(_ string, messages ...*message.Message) error {
	l.all = append(l.all, messages...)
	return nil
}

func (*recordingPublisher) Close() error { return nil }

// The reason quotes nothing of the message.
func TestDeadLetters_ReasonNamesFailedCheck(t *testing.T) {
	s := &Service{deps: Deps{Logger: slog.New(slog.DiscardHandler), Now: time.Now}}
	var err error
	s.metrics, err = newMetrics(nil)
	require.NoError(t, err)
	contexts := func(msg *message.Message) ([]*message.Message, error) { return nil, s.handleContext(msg, nil) }
	for name, c := range map[string]struct {
		handler         message.HandlerFunc
		payload, reason string
	}{
		"discovery: no JSON": {s.handleDiscovery, `secret`, "message is not a valid task"},
		"discovery: different schema": {s.handleDiscovery, `{"request_id":{"secret":1}}`,
			"message is not a valid task"},
		"discovery: no input": {s.handleDiscovery, `{"request_id":"r"}`, "discovery task r without input"},
		"context: no JSON":    {contexts, `secret`, "message is not a valid task"},
		"context: no id":      {contexts, `{"person":"secret"}`, "context call without a valid request_id"},
		"context: no organization": {contexts, `{"call":{"request_id":"r"},"person":"secret"}`,
			"context call r without organization_id or key_id"},
	} {
		t.Run(name, func(t *testing.T) {
			var written recordingPublisher
			handler := deadLetters(&written, "dead", "handler", time.Now)(c.handler)
			_, err := handler(message.NewMessage("m", []byte(c.payload)))
			require.NoError(t, err)
			require.Len(t, written.all, 1)
			require.Equal(t, c.reason, written.all[0].Metadata[event.HeaderDeadPrefix+"reason"])
			require.Equal(t, "malformed_task", written.all[0].Metadata[event.HeaderDeadPrefix+"code"])
		})
	}
	other := errors.New("another")
	var written recordingPublisher
	failing := func(*message.Message) ([]*message.Message, error) { return nil, other }
	_, err = deadLetters(&written, "dead", "handler", time.Now)(failing)(message.NewMessage("m", nil))
	require.ErrorIs(t, err, other)
	require.Empty(t, written.all)
}

// unavailableConn is a store whose queries fail.
type unavailableConn struct{ driver.Conn }

func (unavailableConn) Query(context.Context, string, ...any) (driver.Rows, error) {
	return nil, errors.New("connection refused")
}

// The router logs the returned error.
func TestHandleContext_RetriedTaskIsNotLogged(t *testing.T) {
	var logged bytes.Buffer
	s := &Service{deps: Deps{Logger: slog.New(slog.NewTextHandler(&logged, nil)), Now: time.Now}}
	var err error
	s.metrics, err = newMetrics(nil)
	require.NoError(t, err)
	s.reader = people.NewReader(unavailableConn{}, identity.Default(), people.Config{})
	t.Cleanup(s.reader.Close)
	now := time.Now()
	value, err := json.Marshal(event.ContextTask{Person: jsontext.Value(`"x"`),
		Call: event.ContextCall{RequestID: "r", OrganizationID: "o", KeyID: "k", RequestedAt: now,
			RespondBy: now.Add(time.Minute)}})
	require.NoError(t, err)
	err = s.handleContext(message.NewMessage("m", value), nil)
	require.ErrorContains(t, err, "context task r failed, will retry: ")
	require.Empty(t, logged.String())
}
