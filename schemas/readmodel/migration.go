package readmodel

import (
	"embed"
	"fmt"
	"io/fs"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations holds the schema as files NNNN_create_<table>.sql, text/templates
// that are rendered with a Layout. A file's statements end with ";" at the end
// of a line and can be repeated; its line "-- owner:" names the service whose
// read model the table is.
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

// Settings are the table settings for point lookups: small granules, small
// compression blocks, and a window of insert tokens, which single nodes do not
// keep by default, so that a retried insert is recognised.
func (l Layout) Settings() string {
	window := "non_replicated_deduplication_window = 10000"
	if l.Cluster != "" {
		window = "replicated_deduplication_window = 10000"
	}
	return "index_granularity = 64, index_granularity_bytes = 0, min_compress_block_size = 16384, max_compress_block_size = 65536, " + window
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
