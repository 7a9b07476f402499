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

// removesMembersKilledWhileJoining closes the connections of members that wait to join, as if they were killed. Their
// partitions must be reassigned soon after.
func removesMembersKilledWhileJoining(t *testing.T, c *Cluster) {
	const gone, messages = 8, 200
	topic := Topic(t, c.Config, 2*gone, nil)
	w := Writer(t, c.Config)
	Produce(t, w, topic, 0, messages)
	group, ledger := newID("group"), NewLedger()
	busy, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	timing := Timing() // long enough for the others to join before this member times out
	timing.Session, timing.Rebalance = 30*time.Second, 30*time.Second
	StartConsumer(t, bus.BatchConsumerConfig{
		Config: c.Config, Group: group, Topics: []string{topic}, Timing: timing,
		Handle: func(_ context.Context, b bus.Batch) error {
			once.Do(func() { close(busy) })
			<-release // the others wait until this member rejoins
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

// joinAndWait starts n joins to a group with one member that does not rejoin yet. leave closes their connections.
func joinAndWait(t *testing.T, cfg bus.Config, group, topic string, n int) (leave func()) {
	var mu sync.Mutex
	var conns []net.Conn
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			conns = append(conns, conn)
		}
		return conn, err
	}
	transport := func() *kafka.Transport { return &kafka.Transport{TLS: cfg.TLS, SASL: cfg.SASL, Dial: dial} }
	metadata := kafka.GroupProtocolSubscription{Topics: []string{topic}}
	join := kafka.JoinGroupRequest{
		GroupID: group, ProtocolType: "consumer", SessionTimeout: Timing().Session, RebalanceTimeout: waitTimeout,
		Protocols: []kafka.GroupProtocol{{Name: "range", Metadata: metadata}},
	}
	var joining sync.WaitGroup
	for range n {
		joining.Go(func() {
			req := join
			client := &kafka.Client{Addr: kafka.TCP(cfg.Brokers...), Timeout: waitTimeout, Transport: transport()}
			for { // the first request gets a member ID, the second one joins
				res, err := client.JoinGroup(context.WithoutCancel(t.Context()), &req)
				if err != nil {
					return // expected: leave has closed the connection
				}
				if !errors.Is(res.Error, kafka.MemberIDRequired) {
					t.Errorf("joined before the group was ready: %+v", res)
					return
				}
				req.MemberID = res.MemberID
			}
		})
	}
	client := newClient(cfg)
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
		<-time.After(200 * time.Millisecond) // until the broker has noticed
	}
}
