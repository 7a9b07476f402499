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

// ErrNoTables means that a database has none of the read models.
var ErrNoTables = errors.New("the database has no read models: run muster migrate")

// FindLayout returns the layout of the existing tables. On a cluster they are Distributed tables, which name
// it. It returns ErrNoTables if there are none, and an error if the layouts are mixed or differ from the
// migrations: changing tables by a guessed layout is unsafe.
func FindLayout(ctx context.Context, conn driver.Conn) (layout Layout, err error) {
	var tables []struct {
		Name   string `ch:"name"`
		Engine string `ch:"engine"`
		Full   string `ch:"engine_full"`
	}
	err = conn.Select(ctx, &tables, "SELECT name, engine, engine_full FROM system.tables WHERE database = "+
		"currentDatabase() AND name IN ('"+strings.Join(Tables(), "', '")+"') ORDER BY name")
	if err != nil {
		return layout, fmt.Errorf("read the layout of the tables: %w", err)
	}
	var clusters []string
	for _, t := range tables {
		cluster, err := clusterOf(t.Name, t.Engine, t.Full)
		if err != nil {
			return layout, err
		}
		clusters = append(clusters, cluster)
	}
	slices.Sort(clusters)
	clusters = slices.Compact(clusters)
	switch len(clusters) {
	case 0:
		return layout, ErrNoTables
	case 1:
		return Layout{Cluster: clusters[0]}, nil
	}
	return layout, fmt.Errorf("read models have different clusters, or only some are on a cluster: %q", clusters)
}

// clusterOf returns the cluster of a table, "" for a table of a single node. The name is as migrated and may
// contain a macro such as {cluster}.
func clusterOf(name, engine, full string) (string, error) {
	if strings.HasSuffix(engine, "MergeTree") {
		return "", nil
	}
	form := regexp.MustCompile(`^Distributed\((?:'([^']+)'|([\w.-]+)), '?[^',]*'?, '?([^',]+)'?[,)]`)
	m := form.FindStringSubmatch(full)
	if m == nil {
		m = make([]string, 4)
	}
	cluster := m[1] + m[2] // Quoted or unquoted.
	if cluster == "" || m[3] != (Layout{Cluster: cluster}).Local(name) {
		return "", fmt.Errorf("table %s was not created by muster migrate: its engine is %s", name, full)
	}
	return cluster, nil
}
