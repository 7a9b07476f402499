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

// FlushUsagePath is where [Service.FlushUsage] is on the admin address.
const FlushUsagePath = "/usage/flush"

// flushTimeout bounds one request to [Service.FlushUsage].
const flushTimeout = 5 * time.Second

// FlushedUsage is the answer to [Service.FlushUsage].
type FlushedUsage struct {
	// Alone says that there is no other replica, so that the topic has every call that
	// was answered before the request.
	Alone bool `json:"alone"`
	// Pending is how many usage events wait to be published.
	Pending int `json:"pending"`
}

// FlushUsage answers POST on the admin address: 200 with a [FlushedUsage] once the usage
// events of the calls that this replica has answered before are on the topic, 503 when
// they are not within 5 seconds, as when Kafka is away. They are kept, and whoever waits
// asks again.
func (s *Service) FlushUsage(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeoutCause(r.Context(), flushTimeout, errors.New("it takes too long"))
	defer cancel()
	status := http.StatusOK
	if err := s.outbox.FlushAnswered(ctx); err != nil {
		status = http.StatusServiceUnavailable
	}
	body, err := json.Marshal(FlushedUsage{Alone: s.deps.Redis == nil, Pending: s.outbox.Pending()})
	if err != nil {
		http.Error(w, fmt.Sprintf("encode: %v", err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if _, err := w.Write(append(body, '\n')); err != nil {
		s.deps.Logger.DebugContext(ctx, "whoever had the usage events published has left", slog.Any("error", err))
	}
}
