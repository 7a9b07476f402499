// Package freeport finds addresses for servers that tests start, stop and start again.
//
// Outgoing connections use the ports that the system chooses (port 0): while a server is down, any connection may take
// its port. The ports found here are below that range, free when found, and drawn at random, so that concurrent tests
// rarely get the same ones.
package freeport

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

const (
	lowest   = 12_000 // below are the defaults of common servers
	highest  = 32_767 // Linux's range of ephemeral ports begins above, IANA's at 49,152
	attempts = 1000
)

// Addrs returns n different addresses "127.0.0.1:port".
func Addrs(ctx context.Context, n int) ([]string, error) {
	var out []string
	var last error
	for range attempts {
		if len(out) == n {
			return out, nil
		}
		port := lowest + rand.IntN(highest-lowest+1) //nolint:gosec // not for secrets
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
		if err != nil {
			last = err
			continue
		}
		defer ln.Close() // when all are open, so that they differ
		out = append(out, addr)
	}
	return nil, fmt.Errorf("find a free port: %w", last)
}
