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

// Migrations returns the schema as files NNNN_create_<table>.sql: text/templates that are rendered with a
// Layout. Statements end with ";" at the end of a line and are idempotent; the line "-- owner:" names the
// service that owns the table. A file in baseline/ creates all tables and views as the migrations up to its
// number leave them, for new databases, which takes a fraction of the time. TestBaseline of projector/migrations writes
// (-update) and verifies it.
func Migrations() (fs.FS, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, fmt.Errorf("read model migrations: %w", err)
	}
	return files, nil
}

// Layout is the kind of installation for which the schema is rendered, the parameter of the templates. The
// zero value is a single node.
type Layout struct {
	// Cluster is the name in ClickHouse's remote_servers. If set, each table is a
	// ReplicatedReplacingMergeTree <name>_local on every node, behind a Distributed table <name> sharded by
	// the row's key.
	Cluster string
}

// Local returns the name of the table with a node's own rows.
func (l Layout) Local(table string) string {
	if l.Cluster == "" {
		return table
	}
	return table + "_local"
}

// Everywhere returns the tables to alter when columns change: the local table and, on a cluster, the
// Distributed one.
func (l Layout) Everywhere(table string) []string {
	if l.Cluster == "" {
		return []string{table}
	}
	return []string{l.Local(table), table}
}

// Logical returns the table name without the suffix of local tables. ok is false for a cluster's Distributed
// tables.
func (l Layout) Logical(name string) (string, bool) {
	if l.Cluster == "" {
		return name, true
	}
	return strings.CutSuffix(name, l.Local(""))
}

// From returns the table expression to read rows from. On a cluster it reads the local tables of shadow and
// retired tables: the Distributed one may be missing after an interrupted replay.
func (l Layout) From(table string) string {
	if _, _, _, beside := ParseRebuilt(table); beside && l.Cluster != "" {
		return "cluster('" + l.Cluster + "', currentDatabase(), " + l.Local(table) + ")"
	}
	return table
}

// OnAllNodes returns a table expression for a system table on every node.
func (l Layout) OnAllNodes(table string) string {
	if l.Cluster == "" {
		return table
	}
	return "clusterAllReplicas('" + l.Cluster + "', " + table + ")"
}

// OnCluster returns the clause that runs a statement on every node.
func (l Layout) OnCluster() string {
	if l.Cluster == "" {
		return ""
	}
	return " ON CLUSTER '" + l.Cluster + "'"
}

// ReplacingMergeTree returns the engine of a table in which the greatest version wins.
func (l Layout) ReplacingMergeTree(table, version string) string {
	if l.Cluster == "" {
		return "ReplacingMergeTree(" + version + ")"
	}
	return "ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/" + table + "', '{replica}', " +
		version + ")"
}

// restAge is the number of seconds after the last insert when a table read by key is merged into one part.
const idleSeconds = 300

// Lookup returns the settings of a table that is read by key: small granules in compact parts, which store a
// granule's columns side by side in one file. A point read of many columns then decompresses little more than
// it needs and takes a third of the CPU time of wide parts (deploy/docs/benchmarks.md). Use granularity 8 for
// rows of kilobytes, 32 for some hundred bytes, 64 for short ones: smaller granules cost disk, larger ones
// cost reads.
//
// A read by key searches every part, so a table without inserts for restAge seconds is merged into one part.
// Reads of seven parts take 1.8 times as long.
func (l Layout) Lookup(granularity int) string {
	return "index_granularity = " + strconv.Itoa(granularity) + ", index_granularity_bytes = 104857600, " +
		"min_bytes_for_wide_part = 1099511627776, min_rows_for_wide_part = 1000000000000, " +
		"min_age_to_force_merge_seconds = " + strconv.Itoa(idleSeconds) +
		", min_age_to_force_merge_on_partition_only = 1, " +
		l.Deduplication()
}

// Deduplication returns the setting for a window of insert tokens, so that retried inserts are recognized.
// Single nodes have none by default.
func (l Layout) Deduplication() string {
	if l.Cluster != "" {
		return "replicated_deduplication_window = 10000"
	}
	return "non_replicated_deduplication_window = 10000"
}

// SearchSettings returns the settings of tables that are scanned: default granules and the window of insert
// tokens.
func (l Layout) SearchSettings() string {
	if l.Cluster != "" {
		return "replicated_deduplication_window = 10000"
	}
	return "non_replicated_deduplication_window = 10000"
}

// Distributed returns the statement that creates the Distributed table over the local ones, sharded by the
// row's key; "" for a single node.
func (l Layout) Distributed(table, shardKey string) string {
	if l.Cluster == "" {
		return ""
	}
	return "CREATE TABLE IF NOT EXISTS " + table + l.OnCluster() + " AS " + l.Local(table) +
		"\nENGINE = Distributed('" + l.Cluster + "', currentDatabase(), " + l.Local(table) + ", cityHash64(" +
		shardKey + "));"
}
