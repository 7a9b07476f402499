package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"muster/deploy/internal/status"
	"muster/platform/opensearch"
	queryapi "muster/query-api"
	"muster/query-api/opensearchtest"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/searchindex"
)

// measureOpenSearch runs each query through muster, whose sink fills an index, and on OpenSearch itself, whose index of
// the same node has the same documents. Then it measures freshness at a tenth of the rate.
func measureOpenSearch(ctx context.Context, b *bench, out io.Writer) (err error) {
	node, err := b.startOpenSearch(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	if err := b.indexOpenSearch(ctx, node, out); err != nil {
		return err
	}
	if err := b.close(); err != nil {
		return err
	}
	b.conn, b.process = nil, nil
	b.env = append(b.env, opensearch.URLEnv+"="+node.URL())
	defer func() { b.env = nil }()
	if err := b.up(ctx); err != nil {
		return err
	}
	if err := b.connect(ctx); err != nil {
		return err
	}
	cfg, _, err := opensearch.ConfigFromEnv(func(name string) string {
		if name == opensearch.URLEnv {
			return node.URL()
		}
		return ""
	})
	if err != nil {
		return err
	}
	client, err := opensearch.Open(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	if err := b.awaitIndex(ctx, node, cfg, out); err != nil {
		return err
	}
	serve := queryapi.Config{Addr: "127.0.0.1:0", RequestTimeout: time.Minute, SearchTimeout: 50 * time.Second}
	return b.servingWith(ctx, serve, queryapi.Deps{OpenSearch: client}, func(base string) error {
		times, err := b.compareQueries(ctx, b.musterSearch(base), openSearchSearch(node), out)
		if err != nil {
			return err
		}
		const factor, more = 1.3, 5 * time.Millisecond
		for c, callers := range []string{"1 caller", "8 callers"} {
			slower := 0
			for _, t := range times {
				if ours, theirs := t[0].p50[c], t[1].p50[c]; ours > time.Duration(factor*float64(theirs))+more {
					slower++
				}
			}
			fmt.Fprintf(out, "  %s: geometric mean of p50 %.2f of bare OpenSearch's; %d of %d queries above %.1f times "+
				"that and 5 ms (bar: none)\n", callers,
				meanRatio(times, func(t searchTimes) time.Duration { return t.p50[c] }), slower, len(times), factor)
		}
		rate := b.rate
		defer func() { b.rate = rate }()
		b.rate = max(250, rate/10)
		people := freshKind{"network people", record.KindNetworkPerson, freshPerson, b.inSearch}
		return b.freshLoad(ctx, base, "search", nil, []freshKind{people}, out)
	})
}

// awaitIndex waits until muster has filled its index, merges it, and prints the time and the size.
func (b *bench) awaitIndex(ctx context.Context, node *opensearchtest.Node, cfg opensearch.Config, out io.Writer) error {
	began := time.Now()
	index := searchindex.Names{Prefix: cfg.Prefix, Collection: readmodel.PeopleCollection().Name}.Alias()
	var stats struct {
		All struct {
			Primaries struct {
				Docs struct {
					Count int64 `json:"count"`
				} `json:"docs"`
				Store struct {
					Size int64 `json:"size_in_bytes"`
				} `json:"store"`
			} `json:"primaries"`
		} `json:"_all"`
	}
	for {
		err := node.Do(ctx, http.MethodGet, "/"+index, nil, nil)
		if err == nil {
			break
		}
		var missing *opensearchtest.StatusError
		if !errors.As(err, &missing) || missing.Status != http.StatusNotFound {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
	source := b.source()
	source.Others = append(source.Others, status.SearchConsumers()...)
	if err := status.Wait(ctx, source, nil); err != nil {
		return err
	}
	filled := time.Since(began)
	if err := node.Merge(ctx, index); err != nil {
		return err
	}
	if err := node.Do(ctx, http.MethodGet, "/"+index+"/_stats/docs,store", nil, &stats); err != nil {
		return err
	}
	p := stats.All.Primaries
	fmt.Fprintf(out, "  muster has filled the index in %.0f s (0 if it was there): %d documents with list entries, "+
		"%.1f MB merged, %.2f kB a person\n", filled.Seconds(), p.Docs.Count, float64(p.Store.Size)/1e6,
		float64(p.Store.Size)/1e3/float64(b.people))
	return nil
}

// inSearch looks a person up by search.
func (b *bench) inSearch(
	ctx context.Context, base, username string,
) (req *http.Request, isMiss func(body []byte) bool, err error) {
	req, err = http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/person/search", bytes.NewReader(
		fmt.Appendf(nil, `{"query":{"term":{"profile_id.keyword":%q}},"size":1}`, username)))
	if err == nil {
		req.Header.Set("Authorization", "Bearer "+b.in.APIKey)
		req.Header.Set("Content-Type", "application/json")
	}
	return req, func(body []byte) bool { return bytes.Contains(body, []byte(`"total":0,`)) }, err
}
