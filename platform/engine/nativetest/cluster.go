package nativetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"muster/platform/engine"
	"muster/platform/engine/enginetest"
)

// Cluster is a cluster of engines, each of which is a shard or a replica of the only one. Queries and inserts can be
// sent to any of them. Their macro {cluster} is the cluster's name.
type Cluster struct {
	Name    string
	Engines []*enginetest.Engine
	Servers []*Server
}

// StartCluster starts engines, each in a separate process and with a database of the given name. They are stopped when
// the test ends.
func StartCluster(tb testing.TB, name, database string, shards int) *Cluster {
	tb.Helper()
	return start(tb, name, database, shards, "</shard>\n<shard>")
}

// StartReplicas is StartCluster for one shard with several replicas. They do not replicate: a table has different rows
// on each of them, unless a test inserts the same.
func StartReplicas(tb testing.TB, name, database string, replicas int) *Cluster {
	tb.Helper()
	return start(tb, name, database, replicas, "\n")
}

// start starts engines that are separated in the definition of the cluster.
func start(tb testing.TB, name, database string, engines int, separator string) *Cluster {
	tb.Helper()
	c := &Cluster{Name: name}
	const replicated = "<internal_replication>true</internal_replication>"
	var replicas []string
	for i := range engines {
		s := listen(tb)
		s.shard = i + 1
		c.Servers = append(c.Servers, s)
		replicas = append(replicas, fmt.Sprintf("<replica><host>127.0.0.1</host><port>%d</port><user>%s</user>"+
			"<password>%s</password><compression>false</compression></replica>",
			s.port(), enginetest.User, enginetest.Password))
	}
	text := "<clickhouse><remote_servers><" + name + "><shard>" + replicated +
		strings.Join(replicas, strings.Replace(separator, "<shard>", "<shard>"+replicated, 1)) +
		"</shard></" + name + "></remote_servers>" +
		"<macros><cluster>" + name + "</cluster></macros></clickhouse>\n"
	for _, s := range c.Servers {
		e, err := enginetest.Start(context.WithoutCancel(tb.Context()), func(cfg *engine.SupervisorConfig) {
			file := filepath.Join(cfg.Server.Dir, "cluster.xml") // the engine may read this directory
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				tb.Fatal(err)
			}
			cfg.Server.EngineArgs = append(cfg.Server.EngineArgs, "--config-file="+file)
		})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() {
			if err := e.Close(); err != nil {
				tb.Error(err)
			}
		})
		c.Engines = append(c.Engines, e)
		s.serve(tb, e.Addr(), enginetest.User, enginetest.Password)
		if _, _, err := (&conn{server: s}).execute("CREATE DATABASE "+quote(database), nil, nil); err != nil {
			tb.Fatal(err)
		}
	}
	return c
}

// DSN returns a clickhouse-go DSN of a shard. Its timeouts are long, for machines that run all tests at once.
func (c *Cluster) DSN(shard int, database string) string {
	return c.Engines[shard].DSN(database) +
		"?use_hedged_requests=0&connect_timeout_with_failover_ms=20000&handshake_timeout_ms=20000"
}

var (
	replicatedEngine = regexp.MustCompile(`Replicated(\w*MergeTree)\('[^']*', '[^']*'(?:, )?`)
	replicatedWindow = regexp.MustCompile(`\breplicated_deduplication_window = `)
	onCluster        = regexp.MustCompile(" ON CLUSTER (?:'[^']*'|`[^`]*`)")
)

// Unreplicated returns a statement for a cluster in a form that can be run on every engine: without ON CLUSTER and
// Replicated engines, which require a Keeper.
func Unreplicated(statement string) string {
	statement = onCluster.ReplaceAllString(statement, "")
	statement = replicatedEngine.ReplaceAllString(statement, "$1(")
	return replicatedWindow.ReplaceAllString(statement, "non_replicated_deduplication_window = ")
}
