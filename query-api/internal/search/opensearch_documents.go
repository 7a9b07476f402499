package search

import (
	"context"
	"slices"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/query-api/internal/readstore"
	"muster/query-api/internal/search/planner"
)

// documentState is the state of the tables that documents are read from, while it is read.
type documentState struct {
	cancel context.CancelFunc
	done   chan struct{}
	as     readstore.AsOf
}

// readDocumentState begins to read the state of the tables that documents are read from, if any are. Its stop must be
// called.
func (s *Search) readDocumentState(ctx context.Context) *documentState {
	ctx, cancel := context.WithCancel(ctx)
	d := &documentState{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(d.done)
		if s.request.Size > 0 {
			d.as = s.searcher.documentsAsOf(ctx)
		}
	}()
	return d
}

func (d *documentState) wait() readstore.AsOf {
	<-d.done
	return d.as
}

func (d *documentState) stop() {
	d.cancel()
	<-d.done
}

// stepDocuments is the step that reads the state of the tables that documents are read from.
const stepDocuments = "documents"

// documentsAsOf returns the state of the tables that documents are read from, no older than the call. It is unknown on a
// cluster, whose replicas differ, and if it cannot be read: cached documents are then not used.
func (s *Searcher) documentsAsOf(ctx context.Context) readstore.AsOf {
	layout, err := s.findLayout(ctx)
	if err != nil || layout.Cluster != "" {
		return readstore.AsOf{}
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
	if err != nil {
		return readstore.AsOf{}
	}
	slices.Sort(parts)
	return readstore.AsOf{State: strings.Join(parts, "\n"), Unseen: unseen}
}
