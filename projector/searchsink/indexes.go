package searchsink

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"

	"muster/platform/opensearch"
	"muster/schemas/readmodel"
	"muster/schemas/searchindex"
)

// indexes manages the indexes of a collection.
type indexes struct {
	client *opensearch.Client
	names  searchindex.Names
}

func newIndexes(client *opensearch.Client, collection string) indexes {
	return indexes{client: client, names: searchindex.Names{Prefix: client.Config().Prefix, Collection: collection}}
}

// target is an index that documents are written to.
type target struct {
	index string
	live  bool
	meta  searchindex.Meta
}

// errNoIndex is the error of a batch while there is no index.
var errNoIndex = errors.New("the search index does not exist yet")

// list returns all indexes, in the order of their names.
func (x indexes) list(ctx context.Context) ([]target, error) {
	var found map[string]struct {
		Aliases  map[string]struct{} `json:"aliases"`
		Mappings struct {
			Meta searchindex.Meta `json:"_meta"`
		} `json:"mappings"`
	}
	path := "/" + x.names.Pattern() + "?filter_path=*.aliases,*.mappings._meta"
	if err := x.client.Do(ctx, http.MethodGet, path, nil, &found); err != nil {
		return nil, fmt.Errorf("list search indexes: %w", err)
	}
	var out []target
	for _, name := range slices.Sorted(maps.Keys(found)) {
		_, live := found[name].Aliases[x.names.Alias()]
		out = append(out, target{index: name, live: live, meta: found[name].Mappings.Meta})
	}
	return out, nil
}

// create creates an index. It returns the error of an index that exists already.
func (x indexes) create(
	ctx context.Context, c *readmodel.SearchCollection, id string, meta searchindex.Meta,
) (target, error) {
	t := target{index: x.names.Index(id), meta: meta}
	cfg := x.client.Config()
	body, err := searchindex.IndexBody(x.names, c, t.index, searchindex.Settings{
		Shards: cfg.Shards, Replicas: cfg.Replicas,
	}, meta)
	if err == nil {
		err = x.client.Do(ctx, http.MethodPut, "/"+t.index, body, nil)
	}
	if err != nil {
		return t, fmt.Errorf("create search index: %w", err)
	}
	return t, nil
}

// promote makes an index the live one, in place of others.
func (x indexes) promote(ctx context.Context, index string) error {
	all, err := x.list(ctx)
	if err != nil {
		return err
	}
	type action map[string]map[string]string
	actions := []action{{"add": {"index": index, "alias": x.names.Alias()}}}
	for _, t := range all {
		if t.live && t.index != index {
			actions = append(actions, action{"remove": {"index": t.index, "alias": x.names.Alias()}})
		}
	}
	body, err := json.Marshal(map[string][]action{"actions": actions})
	if err == nil {
		err = x.client.Do(ctx, http.MethodPost, "/_aliases", body, nil)
	}
	if err != nil {
		return fmt.Errorf("switch the search alias: %w", err)
	}
	return nil
}

// drop deletes an index.
func (x indexes) drop(ctx context.Context, index string) error {
	err := x.client.Do(ctx, http.MethodDelete, "/"+index, nil, nil)
	if err != nil && !opensearch.IsNotFound(err) {
		return fmt.Errorf("delete search index: %w", err)
	}
	return nil
}

// setMeta replaces generation and partitions of an index.
func (x indexes) setMeta(ctx context.Context, t target) error {
	body, err := json.Marshal(map[string]searchindex.Meta{"_meta": t.meta})
	if err == nil {
		err = x.client.Do(ctx, http.MethodPut, "/"+t.index+"/_mapping", body, nil)
	}
	if err != nil {
		return fmt.Errorf("write the generation of a search index: %w", err)
	}
	return nil
}

// refresh makes all documents of an index or pattern visible.
func (x indexes) refresh(ctx context.Context, index string) error {
	if err := x.client.Do(ctx, http.MethodPost, "/"+index+"/_refresh", nil, nil); err != nil {
		return fmt.Errorf("refresh search index: %w", err)
	}
	return nil
}

// Refresh makes what was written to the live indexes visible. It is no error if there are none.
func Refresh(ctx context.Context, client *opensearch.Client) error {
	for _, c := range readmodel.SearchCollections() {
		x := newIndexes(client, c.Name)
		if err := x.refresh(ctx, x.names.Alias()); err != nil && !opensearch.IsNotFound(err) {
			return err
		}
	}
	return nil
}
