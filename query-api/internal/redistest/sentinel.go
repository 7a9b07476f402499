package redistest

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"muster/platform/polltest"
)

// Follow makes the server a replica of primary, and waits until it is in sync.
func (s *Server) Follow(tb testing.TB, primary *Server) {
	tb.Helper()
	require.NoError(tb, primary.Client(tb).ConfigSet(tb.Context(), "repl-diskless-sync-delay", "0").Err())
	host, port, _ := strings.Cut(primary.addr(), ":")
	c := s.Client(tb)
	require.NoError(tb, c.ReplicaOf(tb.Context(), host, port).Err())
	polltest.Until(tb, startTimeout, func() bool {
		info, err := c.Info(tb.Context(), "replication").Result()
		return err == nil && strings.Contains(info, "master_link_status:up")
	}, "replica not in sync")
}

// LoseTrack disconnects a replica from its primary.
func (s *Server) LoseTrack(tb testing.TB, primary *Server) {
	tb.Helper()
	c := s.Client(tb)
	require.NoError(tb, c.ConfigSet(tb.Context(), "masteruser", "unknown").Err())
	require.NoError(tb, c.ConfigSet(tb.Context(), "masterauth", "wrong").Err())
	require.NoError(tb, primary.Client(tb).ClientKillByFilter(tb.Context(), "TYPE", "replica").Err())
	polltest.Until(tb, startTimeout, func() bool {
		info, err := c.Info(tb.Context(), "replication").Result()
		return err == nil && strings.Contains(info, "master_link_status:down")
	}, "replica still connected")
}

// WaitRole waits until the server has a role, master or slave.
func (s *Server) WaitRole(tb testing.TB, role string) {
	tb.Helper()
	c := s.Client(tb)
	var current []any
	polltest.Until(tb, startTimeout, func() bool {
		// Sentinels close connections to a server that they reconfigure.
		current, _ = c.Do(tb.Context(), "ROLE").Slice()
		return len(current) > 0 && current[0] == role
	}, "role is %v, not %s", func() any { return current }, role)
}

// Sentinels is a group of Sentinels that watch a primary.
type Sentinels struct {
	name string
	all  []*Server
}

// sentinelsDown is how long a server is silent before Sentinels consider it down. They do not promote a replica that
// was disconnected for more than ten times as long, which limits the time of a test after LoseTrack.
const sentinelsDown = 3 * time.Second

// StartSentinels starts three Sentinels with a quorum of two. It returns when they know each other and the given number
// of replicas. They use the certificates of the primary.
func StartSentinels(tb testing.TB, name string, primary *Server, replicas int) *Sentinels {
	tb.Helper()
	s := &Sentinels{name: name}
	host, port, _ := strings.Cut(primary.addr(), ":")
	for range 3 {
		file := filepath.Join(tb.TempDir(), "sentinel.conf")
		config := fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]s 2\nsentinel down-after-milliseconds %[1]s "+
			"%[4]d\nsentinel failover-timeout %[1]s 10000\n",
			name, host, port, sentinelsDown.Milliseconds())
		require.NoError(tb, os.WriteFile(file, []byte(config), 0o600))
		s.all = append(s.all, (&Server{files: primary.files, sentinel: file}).begin(tb))
	}
	for _, one := range s.all {
		c := one.client(tb)
		polltest.Until(tb, startTimeout, func() bool {
			known, err := c.Master(tb.Context(), name).Result()
			return err == nil && known["num-other-sentinels"] == "2" && known["num-slaves"] == fmt.Sprint(replicas)
		}, "Sentinels not connected")
	}
	return s
}

// client returns a client of one Sentinel, which is closed when the test ends.
func (s *Server) client(tb testing.TB) *redis.SentinelClient {
	tb.Helper()
	options, err := s.options()
	require.NoError(tb, err)
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout = clientTimeout, clientTimeout, clientTimeout
	c := redis.NewSentinelClient(options)
	tb.Cleanup(func() { require.NoError(tb, c.Close()) })
	return c
}

// All returns all Sentinels.
func (s *Sentinels) All() []*Server { return s.all }

// URL returns the value of REDIS_URL.
func (s *Sentinels) URL() string {
	query := url.Values{"master_name": {s.name}}
	for _, other := range s.all[1:] {
		query.Add("addr", other.addr())
	}
	return s.all[0].URL() + "?" + query.Encode()
}

// FailOver forces a failover from a healthy primary.
func (s *Sentinels) FailOver(tb testing.TB) {
	tb.Helper()
	require.NoError(tb, s.all[0].client(tb).Failover(tb.Context(), s.name).Err())
}
