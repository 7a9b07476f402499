package bus_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	"muster/platform/bus/bustest"
)

// It counts connection pools of the whole process, so it must not run in parallel with other tests.
func TestWriter_CloseClosesConnections(t *testing.T) {
	cfg := bus.Config{Brokers: brokertest.Start(t).Addrs()}
	topic := bustest.Topic(t, cfg, 1, nil)
	for name, opts := range map[string][]bus.WriterOption{
		"every topic": nil, "one topic": {bus.WithTopics(cfg, topic)},
	} {
		t.Run(name, func(t *testing.T) {
			before := pools()
			for n := range 10 {
				w := bus.NewWriter(cfg, opts...)
				require.NoError(t, bus.WriteAll(t.Context(), w, bustest.Messages(topic, n, 1)))
				require.NoError(t, w.Close())
			}
			bustest.Eventually(t, func() bool { return pools() <= before }, "connection pools are closed")
		})
	}
}

// pools returns the number of connection pools in this process.
func pools() int {
	stacks := make([]byte, 1<<20)
	for {
		n := runtime.Stack(stacks, true)
		if n < len(stacks) {
			return strings.Count(string(stacks[:n]), "(*connPool).discover(")
		}
		stacks = make([]byte, 2*len(stacks))
	}
}
