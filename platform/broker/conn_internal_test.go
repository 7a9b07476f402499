package broker

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConn_StopIsNoWarning(t *testing.T) {
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	var log bytes.Buffer
	c := newGatedConn(server, &gate{}, slog.New(slog.NewTextHandler(&log, nil)))
	c.logDisconnect(fmt.Errorf("validate: %w", errClosed))
	require.Empty(t, log.String())
	c.logDisconnect(errors.New("unknown request"))
	require.Contains(t, log.String(), "level=WARN")
}
