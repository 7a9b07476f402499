package searchsink

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"muster/platform/breaker"
	"muster/platform/opensearch"
)

// breakerKey is the only key of the breaker.
const breakerKey = "opensearch"

// operation writes or deletes a document.
type operation struct {
	id       string // _id
	document []byte // nil: delete
	version  int64
	// equal accepts a document of the same version.
	equal bool
	// position is that of the operation in what the caller gave.
	position int
}

// append appends the operation as lines of a bulk request.
func (o operation) append(b []byte, alias string) []byte {
	if o.document == nil {
		b = append(b, `{"delete":{"_index":"`...)
	} else {
		b = append(b, `{"index":{"_index":"`...)
	}
	b = append(append(append(append(b, alias...), `","_id":"`...), o.id...), `","version":`...)
	b = strconv.AppendInt(b, o.version, 10)
	b = append(b, `,"version_type":"external`...)
	if o.equal {
		b = append(b, "_gte"...)
	}
	b = append(b, "\"}}\n"...)
	if o.document == nil {
		return b
	}
	return append(append(b, o.document...), '\n')
}

// refusal is an operation that OpenSearch will never accept.
type refusal struct {
	operation
	kind string // the type of the error
}

// errIndexGone is the error of a write to an index that was deleted.
var errIndexGone = errors.New("the search index was deleted")

// writer sends operations in bulk requests.
type writer struct {
	indexes
	breaker *breaker.Set
	metrics *metrics
}

// write makes the operations durable in an index, and returns those that were refused. An operation with an older
// version than the document's has no effect. Items that OpenSearch is too busy for are sent again until ctx ends.
func (w *writer) write(ctx context.Context, index string, list []operation) (refused []refusal, err error) {
	alias := w.names.WriteAlias(index)
	for len(list) > 0 {
		var body []byte
		n := 0
		for n < len(list) && n < rowsAtOnce && (n == 0 || len(body) < maxBulkBytes) {
			body = list[n].append(body, alias)
			n++
		}
		found, err := w.send(ctx, alias, body, list[:n])
		if err != nil {
			return refused, err
		}
		refused = append(refused, found...)
		list = list[n:]
	}
	return refused, nil
}

// send sends one bulk request, and again what is to be retried.
func (w *writer) send(ctx context.Context, alias string, body []byte, list []operation) ([]refusal, error) {
	var refused []refusal
	for pause := firstRetry; ; pause = min(2*pause, longestRetry) {
		results, err := breaker.DoWhenClosed(ctx, w.breaker, breakerKey,
			func(ctx context.Context) ([]opensearch.ItemResult, error) {
				ctx, cancel := context.WithTimeout(ctx, bulkTimeout)
				defer cancel()
				began := time.Now()
				results, err := w.client.Bulk(ctx, body, len(list))
				w.metrics.observe(err, time.Since(began))
				return results, err
			})
		switch {
		case opensearch.StatusOf(err) == http.StatusRequestEntityTooLarge && len(list) > 1:
			return w.halve(ctx, alias, list)
		case opensearch.StatusOf(err) == http.StatusRequestEntityTooLarge:
			return []refusal{{list[0], "request_too_large"}}, nil
		case err != nil:
			return nil, err
		}
		var again []operation
		for i, r := range results {
			switch {
			case r.Status == http.StatusConflict: // A newer document is there, or this one.
				w.metrics.documents.WithLabelValues(resultSuperseded).Inc()
			case r.Type == "index_not_found_exception":
				return nil, errIndexGone
			case r.IsTransient():
				again = append(again, list[i])
			case r.Type != "":
				w.metrics.documents.WithLabelValues(resultRefused).Inc()
				refused = append(refused, refusal{list[i], r.Type})
			case list[i].document == nil:
				w.metrics.documents.WithLabelValues(resultDeleted).Inc()
			default:
				w.metrics.documents.WithLabelValues(resultIndexed).Inc()
			}
		}
		if len(again) == 0 {
			return refused, nil
		}
		w.metrics.retries.Add(float64(len(again)))
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
		list, body = again, body[:0]
		for _, o := range list {
			body = o.append(body, alias)
		}
	}
}

// halve sends a bulk request that is too large for the cluster in two.
func (w *writer) halve(ctx context.Context, alias string, list []operation) ([]refusal, error) {
	var refused []refusal
	for _, part := range [][]operation{list[:len(list)/2], list[len(list)/2:]} {
		var body []byte
		for _, o := range part {
			body = o.append(body, alias)
		}
		found, err := w.send(ctx, alias, body, part)
		if err != nil {
			return nil, err
		}
		refused = append(refused, found...)
	}
	return refused, nil
}
