package queryapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
)

// FlushUsagePath is the path of [Service.FlushUsage] on the admin address.
const FlushUsagePath = "/usage/flush"

// flushTimeout bounds one [Service.FlushUsage] request.
const flushTimeout = 5 * time.Second

// FlushedUsage is the response body of [Service.FlushUsage].
type FlushedUsage struct {
	// Alone reports whether this is the only replica. If so, the topic has every call answered
	// before the request.
	Alone bool `json:"alone"`
	// Pending is the number of usage events waiting to be published.
	Pending int `json:"pending"`
}

// FlushUsage handles POST on the admin address. It responds 200 with a [FlushedUsage] once the
// usage events of all calls answered so far by this replica are on the topic. It responds 503 if
// that takes longer than 5 seconds, as during a Kafka outage; the events are kept and the client
// may retry.
func (s *Service) FlushUsage(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeoutCause(r.Context(), flushTimeout, errors.New("flush timed out"))
	defer cancel()
	status := http.StatusOK
	if err := s.outbox.FlushConfirmed(ctx); err != nil {
		status = http.StatusServiceUnavailable
	}
	body, err := json.Marshal(FlushedUsage{Alone: s.deps.Redis == nil, Pending: s.outbox.Pending()})
	if err != nil {
		http.Error(w, fmt.Sprintf("encode response: %v", err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if _, err := w.Write(append(body, '\n')); err != nil {
		s.deps.Logger.DebugContext(ctx, "query-api: usage flush client disconnected",
			slog.Any("error", err))
	}
}
