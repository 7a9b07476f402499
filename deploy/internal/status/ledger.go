package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	queryapi "muster/query-api"
	"muster/schemas/event"
)

// errNoReplica reports that the process at the admin address has no query-api.
var errNoReplica = errors.New("no query-api at this address")

// flushUsage waits until calls that were answered before are on the ledger topic. Replicas of query-api buffer usage
// briefly. The replica at the admin address is told to publish its buffer; for others, which cannot be reached, it
// waits as long as they buffer at most.
func (s Source) flushUsage(ctx context.Context) error {
	reads := func(c Consumer) bool { return slices.Contains(c.Topics, event.TopicUsage) }
	if !slices.ContainsFunc(s.consumers(), reads) {
		return nil
	}
	if s.AdminURL != "" {
		switch alone, err := flushReplica(ctx, s.AdminURL); {
		case errors.Is(err, errNoReplica):
		case err != nil:
			return err
		case alone:
			return nil
		}
	}
	return pause(ctx, queryapi.ReplicaPublishGrace)
}

// flushReplica repeats a flush request until the replica has published its buffer. alone reports that it is the only
// replica.
func flushReplica(ctx context.Context, adminURL string) (alone bool, err error) {
	for {
		flushed, done, err := requestFlush(ctx, adminURL)
		if err != nil || done {
			return flushed.Alone, err
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return false, fmt.Errorf("query-api has %d usage events that it cannot publish: %w", flushed.Pending, err)
		}
	}
}

func requestFlush(ctx context.Context, adminURL string) (flushed queryapi.FlushedUsage, done bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, adminURL+queryapi.FlushUsagePath, nil)
	if err != nil {
		return flushed, false, fmt.Errorf("connect to the admin address: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return flushed, false, fmt.Errorf("connect to the admin address: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return flushed, false, errNoReplica
	case http.StatusOK, http.StatusServiceUnavailable:
	default:
		return flushed, false, fmt.Errorf("%s: status %s", req.URL, resp.Status)
	}
	if err := json.UnmarshalRead(io.LimitReader(resp.Body, 1<<16), &flushed); err != nil {
		return flushed, false, fmt.Errorf("read the response of %s: %w", req.URL, err)
	}
	return flushed, resp.StatusCode == http.StatusOK, nil
}

// pause sleeps for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
