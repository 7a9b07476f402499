package readmodel

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// ErrNoTables says that a database has none of the read models.
var ErrNoTables = errors.New("the database has no read models: run muster migrate")

// FindLayout reads from the tables themselves for which kind of installation they
// were made: those of a cluster are Distributed ones, which name it. It fails when they
// are of two kinds, or not as the migrations make them: whoever changes tables must not
// guess.
func FindLayout(ctx context.Context, conn driver.Conn) (layout Layout, err error) {
	rows, err := conn.Query(ctx, "SELECT name, engine, engine_full FROM system.tables WHERE database = currentDatabase() AND name IN ('"+
		strings.Join(Tables(), "', '")+"') ORDER BY name")
	if err != nil {
		return layout, fmt.Errorf("read how the tables were made: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var clusters []string
	for rows.Next() {
		var name, engine, full string
		if err := rows.Scan(&name, &engine, &full); err != nil {
			return layout, fmt.Errorf("read how the tables were made: %w", err)
		}
		cluster, err := clusterOf(name, engine, full)
		if err != nil {
			return layout, err
		}
		clusters = append(clusters, cluster)
	}
	if err := rows.Err(); err != nil {
		return layout, fmt.Errorf("read how the tables were made: %w", err)
	}
	slices.Sort(clusters)
	clusters = slices.Compact(clusters)
	switch len(clusters) {
	case 0:
		return layout, ErrNoTables
	case 1:
		return Layout{Cluster: clusters[0]}, nil
	}
	return layout, fmt.Errorf("the read models are not of one cluster, or not all of one: %q", clusters)
}

// clusterOf is the cluster that a table is distributed over, none for a node's own: by the
// name that it was migrated with, which may hold a macro such as {cluster}.
func clusterOf(name, engine, full string) (string, error) {
	if strings.HasSuffix(engine, "MergeTree") {
		return "", nil
	}
	m := regexp.MustCompile(`^Distributed\((?:'([^']+)'|([\w.-]+)), '?[^',]*'?, '?([^',]+)'?[,)]`).FindStringSubmatch(full)
	if m == nil {
		m = make([]string, 4)
	}
	cluster := m[1] + m[2] // in quotes, or without
	if cluster == "" || m[3] != (Layout{Cluster: cluster}).Local(name) {
		return "", fmt.Errorf("the table %s is not as muster migrate makes it: its engine is %s", name, full)
	}
	return cluster, nil
}
