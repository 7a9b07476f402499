package bustest

import (
	"log/slog"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
)

// Timing returns short group timeouts for tests.
func Timing() bus.GroupTiming {
	return bus.GroupTiming{
		Heartbeat: 250 * time.Millisecond, Session: 6 * time.Second, Rebalance: 6 * time.Second,
		JoinBackoff: 200 * time.Millisecond, PartitionWatch: time.Second, Drain: 200 * time.Millisecond,
	}
}

// SlowTiming returns Timing with a long Drain, for handlers that end by themselves: what they have handled is committed
// before their consumer stops, also on a busy machine.
func SlowTiming() bus.GroupTiming {
	timing := Timing()
	timing.Drain = 10 * time.Second
	return timing
}

// PubSubUnordered runs Watermill's suite with several messages of a partition in flight, and a restart of the cluster.
func PubSubUnordered(t *testing.T, c *Cluster) {
	p := profile{cluster: c, partitions: partitions(20), inFlight: 16, group: true}
	if c.restart != nil {
		// Not in parallel: it stops the broker of all tests.
		t.Run("Reconnect", func(t *testing.T) { reconnects(t, p) })
	}
	tests.TestPubSub(t, tests.Features{
		ConsumerGroups: true, Persistent: true, ForceShort: raceEnabled,
	}, p.pubSub, p.groupPubSub)
}

// PubSubOrdered runs Watermill's suite with messages keyed by their payload, which must arrive in order.
func PubSubOrdered(t *testing.T, c *Cluster) {
	p := profile{cluster: c, partitions: partitions(20), inFlight: 1, group: true, keyed: true}
	tests.TestPubSub(t, tests.Features{
		ConsumerGroups: true, Persistent: true, GuaranteedOrder: true, ForceShort: raceEnabled,
	}, p.pubSub, p.groupPubSub)
}

// PubSubWithoutGroup runs Watermill's suite with subscribers that read whole topics.
func PubSubWithoutGroup(t *testing.T, c *Cluster) {
	p := profile{cluster: c, partitions: 4, inFlight: 4}
	tests.TestPubSub(t, tests.Features{
		Persistent: true, NewSubscriberReceivesOldMessages: true, ForceShort: raceEnabled,
	}, p.pubSub, p.groupPubSub)
}

// partitions returns n, or at most 6 with the race detector, which is about ten times slower.
func partitions(n int) int {
	if raceEnabled {
		return min(n, 6)
	}
	return n
}

// profile configures the publishers and subscribers of a suite.
type profile struct {
	cluster    *Cluster
	partitions int
	inFlight   int
	group      bool
	keyed      bool
}

// pubSub uses one group for all subscribers of a test, as the suite expects: their topics differ.
func (p profile) pubSub(t *testing.T) (message.Publisher, message.Subscriber) {
	return p.groupPubSub(t, "watermill")
}

func (p profile) groupPubSub(t *testing.T, group string) (message.Publisher, message.Subscriber) {
	t.Helper()
	pc := bus.PublisherConfig{
		Config: p.cluster.Config, Timeout: waitTimeout, // longer than a restart of the cluster on a busy machine
		Logger: slog.New(slog.DiscardHandler),
	}
	if p.keyed {
		pc.Key = func(_ string, m *message.Message) ([]byte, error) { return m.Payload, nil }
	} else {
		pc.Key = func(_ string, m *message.Message) ([]byte, error) { return []byte(m.UUID), nil }
	}
	pub, err := bus.NewPublisher(pc)
	require.NoError(t, err)
	sc := bus.SubscriberConfig{
		Config: p.cluster.Config, MaxInFlight: p.inFlight, NackDelay: time.Millisecond, Timing: Timing(),
		Initialize: bus.Topic{Partitions: p.partitions}, Logger: slog.New(slog.DiscardHandler),
	}
	if p.group {
		sc.Group = group
	}
	sub, err := bus.NewSubscriber(sc)
	require.NoError(t, err)
	return pub, sub
}

// newID returns a unique name for a topic or group.
func newID(prefix string) string { return prefix + "-" + watermill.NewShortUUID() }
