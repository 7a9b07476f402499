package bustest

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
)

// forgetsWhoLeftWhileJoining has members that go away while they wait to join, as
// killed ones do: what the group gives them is read by others soon after.
func forgetsWhoLeftWhileJoining(t *testing.T, c *Cluster) {
	const gone, messages = 8, 200
	topic := Topic(t, c.Config, 2*gone, nil)
	w := Writer(t, c.Config)
	Produce(t, w, topic, 0, messages)
	group, ledger := newID("group"), NewLedger()
	busy, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	timing := Timing() // long enough for the others to join before the group does without it
	timing.Session, timing.Rebalance = 30*time.Second, 30*time.Second
	StartConsumer(t, bus.BatchConsumerConfig{
		Config: c.Config, Group: group, Topics: []string{topic}, Timing: timing,
		Handle: func(_ context.Context, b bus.Batch) error {
			once.Do(func() { close(busy) })
			<-release // the others wait for this member
			ledger.Apply(b)
			return nil
		},
	})
	<-busy
	leave := joinAndWait(t, c.Config, group, topic, gone)
	leave()
	close(release)
	Produce(t, w, topic, messages, messages)
	Eventually(t, func() bool { return ledger.Count() == 2*messages }, "all messages")
}

// joinAndWait has n more members ask to join a group of one that does not let them
// yet; leave takes their connections away.
func joinAndWait(t *testing.T, cfg bus.Config, group, topic string, n int) (leave func()) {
	var mu sync.Mutex
	var conns []net.Conn
	transport := func() *kafka.Transport {
		return &kafka.Transport{TLS: cfg.TLS, SASL: cfg.SASL, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				conns = append(conns, conn)
			}
			return conn, err
		}}
	}
	join := kafka.JoinGroupRequest{
		GroupID: group, ProtocolType: "consumer", SessionTimeout: Timing().Session, RebalanceTimeout: patience,
		Protocols: []kafka.GroupProtocol{{Name: "range", Metadata: kafka.GroupProtocolSubscription{Topics: []string{topic}}}},
	}
	var joining sync.WaitGroup
	for range n {
		joining.Go(func() {
			req, client := join, &kafka.Client{Addr: kafka.TCP(cfg.Brokers...), Timeout: patience, Transport: transport()}
			for { // once to be given an id, once more to join
				res, err := client.JoinGroup(context.WithoutCancel(t.Context()), &req)
				if err != nil {
					return // as it should: the connection was taken away
				}
				if !errors.Is(res.Error, kafka.MemberIDRequired) {
					t.Errorf("joined before the group was ready: %+v", res)
					return
				}
				req.MemberID = res.MemberID
			}
		})
	}
	client := &kafka.Client{Addr: kafka.TCP(cfg.Brokers...), Timeout: 10 * time.Second, Transport: &kafka.Transport{TLS: cfg.TLS, SASL: cfg.SASL}}
	Eventually(t, func() bool {
		res, err := client.DescribeGroups(t.Context(), &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
		return err == nil && len(res.Groups) == 1 && len(res.Groups[0].Members) == n+1
	}, "%d members wait", n)
	return func() {
		mu.Lock()
		for _, conn := range conns {
			require.NoError(t, conn.Close())
		}
		mu.Unlock()
		joining.Wait()
		<-time.After(200 * time.Millisecond) // the broker has noticed
	}
}
