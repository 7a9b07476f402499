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

// errNoReplica: the process at the admin address has no query-api.
var errNoReplica = errors.New("no query-api is there")

// publishLedger returns once the calls that were answered before are on the ledger's
// topic. Replicas of query-api gather them for a moment: the one at the admin address is
// asked to publish what it has; for others, which cannot be asked, it waits as long as
// that takes.
func (s Source) publishLedger(ctx context.Context) error {
	reads := func(c Consumer) bool { return slices.Contains(c.Topics, event.TopicUsage) }
	if !slices.ContainsFunc(s.consumers(), reads) {
		return nil
	}
	if s.AdminURL != "" {
		switch alone, err := flushUsage(ctx, s.AdminURL); {
		case errors.Is(err, errNoReplica):
		case err != nil:
			return err
		case alone:
			return nil
		}
	}
	return pause(ctx, queryapi.OtherReplicas)
}

// flushUsage asks a replica until it has published what it has.
func flushUsage(ctx context.Context, adminURL string) (alone bool, err error) {
	for {
		flushed, done, err := askFlush(ctx, adminURL)
		if err != nil || done {
			return flushed.Alone, err
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return false, fmt.Errorf("query-api has %d usage events that it cannot publish: %w", flushed.Pending, err)
		}
	}
}

func askFlush(ctx context.Context, adminURL string) (flushed queryapi.FlushedUsage, done bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, adminURL+queryapi.FlushUsagePath, nil)
	if err != nil {
		return flushed, false, fmt.Errorf("ask the admin address: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return flushed, false, fmt.Errorf("ask the admin address: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return flushed, false, errNoReplica
	case http.StatusOK, http.StatusServiceUnavailable:
	default:
		return flushed, false, fmt.Errorf("ask %s: status %s", req.URL, resp.Status)
	}
	if err := json.UnmarshalRead(io.LimitReader(resp.Body, 1<<16), &flushed); err != nil {
		return flushed, false, fmt.Errorf("read the answer of %s: %w", req.URL, err)
	}
	return flushed, resp.StatusCode == http.StatusOK, nil
}

// pause waits, unless ctx ends.
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
