package readmodel

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"strings"
	"text/template"
)

// Owner is the service that owns the migrations of this package.
const Owner = "projector"

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migration is one numbered step of the schema.
type Migration struct {
	Number     int      // ascending from 1
	Name       string   // file name without number and extension
	Owner      string   // the service whose read model it is
	Statements []string // to be run in order, each idempotent
}

// Layout says for which kind of installation the schema is rendered. The zero
// value is a single node.
type Layout struct {
	// Cluster is the cluster's name in ClickHouse's remote_servers. When set,
	// each table is a ReplicatedReplacingMergeTree <name>_local on every node
	// of the cluster, behind a Distributed table <name> sharded by the row's
	// own key.
	Cluster string
}

// Migrations renders the schema for a layout, in order.
func Migrations(layout Layout) ([]Migration, error) {
	names, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	out := make([]Migration, 0, len(names))
	for i, path := range names { // fs.Glob sorts
		number, name, err := parseMigrationName(path)
		if err != nil {
			return nil, err
		}
		if number != i+1 {
			return nil, fmt.Errorf("migration %s: number %d, want %d", path, number, i+1)
		}
		text, err := migrationFiles.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read migration: %w", err)
		}
		statements, err := layout.render(path, string(text))
		if err != nil {
			return nil, err
		}
		out = append(out, Migration{Number: number, Name: name, Owner: Owner, Statements: statements})
	}
	return out, nil
}

func parseMigrationName(path string) (number int, name string, err error) {
	base := strings.TrimSuffix(strings.TrimPrefix(path, "migrations/"), ".sql")
	digits, name, ok := strings.Cut(base, "_")
	if !ok {
		return 0, "", fmt.Errorf("migration %s: name is not <number>_<name>.sql", path)
	}
	if _, err := fmt.Sscanf(digits, "%04d", &number); err != nil {
		return 0, "", fmt.Errorf("migration %s: number: %w", path, err)
	}
	return number, name, nil
}

// render gives the statements of one migration file; they are separated by
// lines that end with a semicolon.
func (l Layout) render(path, text string) ([]string, error) {
	t, err := template.New(path).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("parse migration: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, l); err != nil {
		return nil, fmt.Errorf("render migration: %w", err)
	}
	var statements []string
	for _, s := range strings.Split(b.String(), ";\n") {
		if s = strings.TrimSpace(s); s != "" {
			statements = append(statements, s)
		}
	}
	return statements, nil
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
		"\nENGINE = Distributed('" + l.Cluster + "', currentDatabase(), " + l.Local(table) + ", cityHash64(" + shardKey + "));\n"
}
