package search

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/platform/clickhouse"
	"muster/query-api/internal/readstore"
	"muster/query-api/internal/search/planner"
)

// stepDocuments is the step that reads the state of the tables that documents are read from.
const stepDocuments = "documents"

// readDocumentState returns the state of the tables that documents are read from. It is unknown on a cluster, whose
// replicas differ.
func (s *Searcher) readDocumentState(ctx context.Context) (readstore.AsOf, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	layout, err := s.findLayout(ctx)
	if err != nil || layout.Cluster != "" {
		return readstore.AsOf{}, err
	}
	var parts []string
	unseen := true
	err = s.query(ctx, stepDocuments, planner.DocumentPartsStatement(), func(rows driver.Rows) error {
		var table, name, identity string
		var n uint64
		var replica uint32
		if err := rows.Scan(&table, &name, &identity, &n, &replica); err != nil {
			return err
		}
		parts = append(parts, identity)
		unseen = unseen && (table != planner.SeenTable || n == 0)
		return nil
	})
	if code, ok := clickhouse.CodeOf(err); ok && code == proto.ErrAccessDenied {
		s.remote.denied.Do(func() {
			s.deps.Logger.Warn("search: documents are not cached, the ClickHouse user may not read the parts of the tables",
				slog.Any("error", err), slog.String("hint", "GRANT SELECT ON system.parts"))
		})
	}
	slices.Sort(parts)
	return readstore.AsOf{State: strings.Join(parts, "\n"), Unseen: unseen}, err
}
