package opensearchtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/platform/opensearch"
	"muster/schemas/readmodel"
	"muster/schemas/searchindex"
)

// Collection maintains the index of a collection in a cluster from a store, as the projector does, without its delivery
// guarantees.
type Collection struct {
	of     readmodel.SearchCollection
	client *opensearch.Client
	names  searchindex.Names
	key    []byte
	conn   driver.Conn
}

// collectionIndex is the ID of the index.
const collectionIndex = "test"

// OpenCollection replaces the index with the prefix by an empty one, whose document IDs have the key. Close must be
// called.
func OpenCollection(
	ctx context.Context, of readmodel.SearchCollection, url, prefix string, key []byte, conn driver.Conn,
) (*Collection, error) {
	client, err := opensearch.Open(opensearch.Config{Nodes: []string{url}, Prefix: prefix, Shards: 1, Replicas: "0"})
	if err != nil {
		return nil, err
	}
	p := &Collection{
		of: of, client: client, names: searchindex.Names{Prefix: prefix, Collection: of.Name}, key: key, conn: conn,
	}
	if err := p.create(ctx); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return p, nil
}

// create replaces the index by an empty one.
func (p *Collection) create(ctx context.Context) error {
	index := p.names.Index(collectionIndex)
	if err := p.client.Do(ctx, http.MethodDelete, "/"+index+"?ignore_unavailable=true", nil, nil); err != nil {
		return err
	}
	body, err := searchindex.IndexBody(p.names, &p.of, index, searchindex.Settings{Replicas: "0"}, searchindex.Meta{})
	if err != nil {
		return err
	}
	if err := p.client.Do(ctx, http.MethodPut, "/"+index, body, nil); err != nil {
		return err
	}
	alias := fmt.Sprintf(`{"actions":[{"add":{"index":%q,"alias":%q}}]}`, index, p.names.Alias())
	return p.client.Do(ctx, http.MethodPost, "/_aliases", []byte(alias), nil)
}

// Client returns the client of the cluster.
func (p *Collection) Client() *opensearch.Client { return p.client }

// Close removes the index and ends the connections.
func (p *Collection) Close(ctx context.Context) error {
	err := p.client.Do(ctx, http.MethodDelete, "/"+p.names.Index(collectionIndex), nil, nil)
	return errors.Join(err, p.client.Close())
}

// Sync replaces the documents by those of all rows of the store, in one segment.
func (p *Collection) Sync(ctx context.Context) error {
	index := p.names.Index(collectionIndex)
	if err := p.create(ctx); err != nil {
		return err
	}
	var after uint64
	for first := true; ; first = false {
		rows, err := searchindex.Page(ctx, p.conn, &p.of, after, first, 500)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			break
		}
		after = rows[len(rows)-1].Hash
		if err := p.write(ctx, rows); err != nil {
			return err
		}
	}
	for _, action := range []string{"/_refresh", "/_forcemerge?max_num_segments=1", "/_refresh"} {
		if err := p.client.Do(ctx, http.MethodPost, "/"+index+action, nil, nil); err != nil {
			return err
		}
	}
	return nil
}

func (p *Collection) write(ctx context.Context, rows []*searchindex.Row) (err error) {
	var body []byte
	n := 0
	for _, row := range rows {
		if row.Deleted {
			continue
		}
		body = fmt.Appendf(body, `{"index":{"_index":%q,"_id":%q}}`+"\n",
			p.names.WriteAlias(p.names.Index(collectionIndex)),
			searchindex.DocumentID(p.key, row.ID))
		if body, err = row.AppendDocument(body, 1, 0); err != nil {
			return err
		}
		body = append(body, '\n')
		n++
	}
	if n == 0 {
		return nil
	}
	results, err := p.client.Bulk(ctx, body, n)
	for _, r := range results {
		if r.Type != "" {
			return fmt.Errorf("index: %s", r.Type)
		}
	}
	return err
}
