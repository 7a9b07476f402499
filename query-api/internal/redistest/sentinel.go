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

// Follow makes the server a replica of another one, and waits until it has what that one
// has.
func (s *Server) Follow(tb testing.TB, primary *Server) {
	tb.Helper()
	require.NoError(tb, primary.Client(tb).ConfigSet(tb.Context(), "repl-diskless-sync-delay", "0").Err())
	host, port, _ := strings.Cut(primary.addr(), ":")
	c := s.Client(tb)
	require.NoError(tb, c.ReplicaOf(tb.Context(), host, port).Err())
	polltest.Until(tb, startTimeout, func() bool {
		info, err := c.Info(tb.Context(), "replication").Result()
		return err == nil && strings.Contains(info, "master_link_status:up")
	}, "it does not follow")
}

// LoseTrack has a replica that follows the primary hear nothing of it any more.
func (s *Server) LoseTrack(tb testing.TB, primary *Server) {
	tb.Helper()
	c := s.Client(tb)
	require.NoError(tb, c.ConfigSet(tb.Context(), "masteruser", "nobody").Err())
	require.NoError(tb, c.ConfigSet(tb.Context(), "masterauth", "wrong").Err())
	require.NoError(tb, primary.Client(tb).ClientKillByFilter(tb.Context(), "TYPE", "replica").Err())
	polltest.Until(tb, startTimeout, func() bool {
		info, err := c.Info(tb.Context(), "replication").Result()
		return err == nil && strings.Contains(info, "master_link_status:down")
	}, "it follows still")
}

// Becomes waits until the server takes itself for a master, or a slave.
func (s *Server) Becomes(tb testing.TB, role string) {
	tb.Helper()
	c := s.Client(tb)
	var is []any
	polltest.Until(tb, startTimeout, func() bool {
		is, _ = c.Do(tb.Context(), "ROLE").Slice() // Sentinels end connections to a server that they change
		return len(is) > 0 && is[0] == role
	}, "it is %v and no %s", func() any { return is }, role)
}

// Sentinels watch a primary.
type Sentinels struct {
	name string
	all  []*Server
}

// sentinelsDown is how long a server is silent before Sentinels take it for down. They choose no replica that has
// heard nothing for more than ten times as long, which is how long a test may have after LoseTrack.
const sentinelsDown = 3 * time.Second

// StartSentinels starts three Sentinels, of which two have to agree, and returns when they
// and the primary's replicas, of which there are so many, know of each other. They have the
// primary's certificates.
func StartSentinels(tb testing.TB, name string, primary *Server, replicas int) *Sentinels {
	tb.Helper()
	s := &Sentinels{name: name}
	host, port, _ := strings.Cut(primary.addr(), ":")
	for range 3 {
		file := filepath.Join(tb.TempDir(), "sentinel.conf")
		config := fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]s 2\nsentinel down-after-milliseconds %[1]s %[4]d\nsentinel failover-timeout %[1]s 10000\n",
			name, host, port, sentinelsDown.Milliseconds())
		require.NoError(tb, os.WriteFile(file, []byte(config), 0o600))
		s.all = append(s.all, (&Server{files: primary.files, sentinel: file}).begin(tb))
	}
	for _, one := range s.all {
		c := one.client(tb)
		polltest.Until(tb, startTimeout, func() bool {
			known, err := c.Master(tb.Context(), name).Result()
			return err == nil && known["num-other-sentinels"] == "2" && known["num-slaves"] == fmt.Sprint(replicas)
		}, "the Sentinels do not know of each other")
	}
	return s
}

// client connects to one Sentinel until the test ends.
func (s *Server) client(tb testing.TB) *redis.SentinelClient {
	tb.Helper()
	options, err := s.options()
	require.NoError(tb, err)
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout = patience, patience, patience
	c := redis.NewSentinelClient(options)
	tb.Cleanup(func() { require.NoError(tb, c.Close()) })
	return c
}

// All are those that the URL names.
func (s *Sentinels) All() []*Server { return s.all }

// URL is what REDIS_URL holds.
func (s *Sentinels) URL() string {
	query := url.Values{"master_name": {s.name}}
	for _, other := range s.all[1:] {
		query.Add("addr", other.addr())
	}
	return s.all[0].URL() + "?" + query.Encode()
}

// FailOver has the primary replaced by a replica, although it is well.
func (s *Sentinels) FailOver(tb testing.TB) {
	tb.Helper()
	require.NoError(tb, s.all[0].client(tb).Failover(tb.Context(), s.name).Err())
}
