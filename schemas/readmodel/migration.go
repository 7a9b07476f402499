package readmodel

import (
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

//go:embed migrations/*.sql migrations/baseline/*.sql
var migrations embed.FS

// Migrations holds the schema as files NNNN_create_<table>.sql, text/templates
// that are rendered with a Layout. A file's statements end with ";" at the end
// of a line and can be repeated; its line "-- owner:" names the service whose
// read model the table is. In baseline/ is a file that makes a new database in a fraction of
// the seconds that they take: all tables and views as the migrations up to its number leave
// them. projector's TestBaseline writes it (-update), and compares.
func Migrations() (fs.FS, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, fmt.Errorf("read model migrations: %w", err)
	}
	return files, nil
}

// Layout says for which kind of installation the schema is rendered; it is
// the parameter of the templates. The zero value is a single node.
type Layout struct {
	// Cluster is the cluster's name in ClickHouse's remote_servers. When set,
	// each table is a ReplicatedReplacingMergeTree <name>_local on every node
	// of the cluster, behind a Distributed table <name> sharded by the row's
	// own key.
	Cluster string
}

// Local names the table that holds a node's own rows.
func (l Layout) Local(table string) string {
	if l.Cluster == "" {
		return table
	}
	return table + "_local"
}

// Everywhere names every table that a change of a table's columns has to reach:
// the nodes' local one, and on a cluster the one in front of them.
func (l Layout) Everywhere(table string) []string {
	if l.Cluster == "" {
		return []string{table}
	}
	return []string{l.Local(table), table}
}

// Logical is the name by which a table is known, of one of its names in
// system.tables; not ok for one that is not the node's own, but in front of those.
func (l Layout) Logical(name string) (string, bool) {
	if l.Cluster == "" {
		return name, true
	}
	return strings.CutSuffix(name, l.Local(""))
}

// From is what the rows of a table are read from. Beside the live tables of a cluster
// only those that hold a node's own rows are sure to be there: a replay that was killed
// may have left none in front of them.
func (l Layout) From(table string) string {
	if _, _, _, beside := ParseRebuilt(table); beside && l.Cluster != "" {
		return "cluster('" + l.Cluster + "', currentDatabase(), " + l.Local(table) + ")"
	}
	return table
}

// OnAllNodes is a table of the system to read from, of every node.
func (l Layout) OnAllNodes(table string) string {
	if l.Cluster == "" {
		return table
	}
	return "clusterAllReplicas('" + l.Cluster + "', " + table + ")"
}

// OnCluster is the clause that runs a statement on every node.
func (l Layout) OnCluster() string {
	if l.Cluster == "" {
		return ""
	}
	return " ON CLUSTER '" + l.Cluster + "'"
}

// ReplacingMergeTree is the engine of a table whose greatest version wins.
func (l Layout) ReplacingMergeTree(table, version string) string {
	if l.Cluster == "" {
		return "ReplacingMergeTree(" + version + ")"
	}
	return "ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/" + table + "', '{replica}', " + version + ")"
}

// restAge is how many seconds after the last insert a table that is read by key is at rest.
const restAge = 300

// Lookup is the settings of a table that is read by key: granules of so many
// rows, in compact parts, which keep a granule's columns side by side in one
// file. A point read of many columns then decompresses little besides what it
// asks for: a third of the processor time that wide parts take
// (deploy/docs/benchmarks.md). Rows of kilobytes want 8, those of some hundred bytes 32, short ones 64: fewer rows cost
// disk, more cost reading.
//
// Each part is read for each key, so a table without inserts for restAge seconds is merged into one part. One of seven
// parts takes 1.8 times as long to read.
func (l Layout) Lookup(granularity int) string {
	return "index_granularity = " + strconv.Itoa(granularity) + ", index_granularity_bytes = 104857600, " +
		"min_bytes_for_wide_part = 1099511627776, min_rows_for_wide_part = 1000000000000, " +
		"min_age_to_force_merge_seconds = " + strconv.Itoa(restAge) + ", min_age_to_force_merge_on_partition_only = 1, " +
		l.Deduplication()
}

// Deduplication is the setting that keeps a window of insert tokens, which
// single nodes do not keep by default, so that a retried insert is recognised.
func (l Layout) Deduplication() string {
	if l.Cluster != "" {
		return "replicated_deduplication_window = 10000"
	}
	return "non_replicated_deduplication_window = 10000"
}

// SearchSettings are the table settings for scans over all rows: default
// granules, and the window of insert tokens of Settings.
func (l Layout) SearchSettings() string {
	if l.Cluster != "" {
		return "replicated_deduplication_window = 10000"
	}
	return "non_replicated_deduplication_window = 10000"
}

// Distributed is the statement that puts a table over the nodes' local ones,
// sharded by the row's own key. A single node needs none.
func (l Layout) Distributed(table, shardKey string) string {
	if l.Cluster == "" {
		return ""
	}
	return "CREATE TABLE IF NOT EXISTS " + table + l.OnCluster() + " AS " + l.Local(table) +
		"\nENGINE = Distributed('" + l.Cluster + "', currentDatabase(), " + l.Local(table) + ", cityHash64(" + shardKey + "));"
}
