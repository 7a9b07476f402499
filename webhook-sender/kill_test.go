package webhook_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/schemas/event"
	webhook "muster/webhook-sender"
)

// senderEnv makes the test binary run a sender that uses the brokers in its value.
const senderEnv = "MUSTER_TEST_WEBHOOK_SENDER"

func TestMain(m *testing.M) {
	if brokers := os.Getenv(senderEnv); brokers != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		s, err := webhook.New(webhook.Config{
			Bus: bus.Config{Brokers: strings.Split(brokers, ",")}, Key: key(), Allow: loopback(),
			Timing: shortSession(),
		}, webhook.Deps{})
		if err == nil {
			err = s.Run(ctx)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// shortSession returns timing with a short session, so that the partitions of a killed sender are
// reassigned soon.
func shortSession() bus.GroupTiming {
	return bus.GroupTiming{Heartbeat: 200 * time.Millisecond, Session: 1500 * time.Millisecond,
		Rebalance: 3 * time.Second, JoinBackoff: 100 * time.Millisecond}
}

// Senders are killed at random points: every delivery arrives, and repeated ones have the same ID
// and body.
func TestService_KilledSenderLosesNothing(t *testing.T) {
	c := newCluster(t)
	c.createSecret(t, "org1")
	const endpoints = 30
	var rejected sync.Map
	r := newReceiver(t, func(w http.ResponseWriter, req *http.Request) {
		id := req.Header.Get("webhook-id")
		// A tenth of the deliveries of every endpoint fails once. If all belonged to one endpoint,
		// its breaker would stay open for longer than the test runs.
		n, err := strconv.Atoi(strings.TrimPrefix(id, "d-"))
		if _, seen := rejected.LoadOrStore(id, true); !seen && (err != nil || (n/endpoints+n)%10 == 7) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	n, kills := 1000, 6
	if testing.Short() {
		n, kills = 150, 2
	}
	start := func() *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), senderEnv+"="+strings.Join(c.bus.Brokers, ","))
		cmd.Stderr = os.Stderr
		require.NoError(t, cmd.Start())
		return cmd
	}
	ids := make(map[string]bool)
	random := rand.New(rand.NewPCG(1, 2))
	for k := range kills + 1 {
		cmd := start()
		var tasks []event.WebhookTask
		for i := k * n / (kills + 1); i < (k+1)*n/(kills+1); i++ {
			id := fmt.Sprintf("d-%d", i)
			ids[id] = true
			tasks = append(tasks, task(id, "org1", fmt.Sprintf("%s/%d", r.URL, i%endpoints)))
		}
		before := r.countIDs()
		c.send(t, tasks...)
		if k == kills {
			defer func() {
				require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
				require.NoError(t, cmd.Wait())
			}()
			break
		}
		count := 1 + random.IntN(len(tasks))
		require.Eventually(t, func() bool { return r.countIDs() >= before+count }, 60*time.Second, time.Millisecond)
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
	}
	require.Eventually(t, func() bool {
		for id := range ids {
			a := c.attemptsOf(id)
			if len(a) == 0 || a[len(a)-1].Status != event.WebhookDelivered {
				return false
			}
		}
		return true
	}, 3*time.Minute, 50*time.Millisecond)
	require.Equal(t, n, r.countIDs(), "number of distinct IDs")
	calls := 0
	for id := range ids {
		got := r.requestsFor(id)
		require.NotEmpty(t, got, id)
		calls += len(got)
		for _, g := range got {
			require.Equal(t, got[0].body, g.body)
		}
	}
	require.Empty(t, c.deadLetters())
	t.Logf("%d deliveries, %d kills, %d calls, a tenth rejected once", n, kills, calls)
}
