package erasure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/record"
)

// State is the progress of an erasure request.
type State string

// States of an erasure request.
const (
	Requested  State = "requested"  // in force: the person is in no response
	Suppressed State = "suppressed" // all stored data of the person was found
	Deleted    State = "deleted"    // all of it is physically deleted
	Withdrawn  State = "withdrawn"
)

// Status is an erasure request with its progress.
type Status struct {
	event.Erasure
	State        State            `json:"state"`
	SuppressedAt time.Time        `json:"suppressed_at,omitzero"`
	DeletedAt    time.Time        `json:"deleted_at,omitzero"`
	WithdrawnAt  time.Time        `json:"withdrawn_at,omitzero"`
	Found        map[string]int64 `json:"found,omitempty"`
}

// Requests reads the log of erasure requests, oldest first. A withdrawal is not a request: it ends
// the requests all of whose identifiers it names.
func Requests(ctx context.Context, cfg bus.Config) ([]Status, error) {
	byID := make(map[string]*Status)
	withdrawn := make(map[string]time.Time)           // by hash
	receivers := make(map[record.Version][2][]string) // notified and unreachable ones
	var order []*Status
	err := bus.Scan(ctx, cfg, []string{event.TopicErasureRequest}, func(m kafka.Message) error {
		var e event.Erasure
		if err := json.Unmarshal(m.Value, &e); err != nil || e.Validate() != nil {
			return nil //nolint:nilerr // invalid events do not count
		}
		switch s := byID[e.RequestID]; e.Action {
		case event.ErasureRequested:
			if s == nil { // else a duplicate event
				s = &Status{Erasure: e, State: Requested}
				byID[e.RequestID], order = s, append(order, s)
				for _, i := range e.Identifiers {
					delete(withdrawn, i.Hash)
				}
			}
		case event.ErasureWithdrawn:
			for _, i := range e.Identifiers {
				withdrawn[i.Hash] = e.At
			}
		case event.ErasureSuppressed:
			if s != nil && s.SuppressedAt.IsZero() {
				s.State, s.SuppressedAt, s.Found = Suppressed, e.At, e.Removed
			}
		case event.ErasureNotified:
			if v, err := record.ParseVersion(e.RequestedAt); err == nil {
				r := receivers[v]
				receivers[v] = [2][]string{union(r[0], e.Notified), union(r[1], e.Unreachable)}
			}
		case event.ErasureDeleted:
			if s != nil && s.DeletedAt.IsZero() {
				s.State, s.DeletedAt = Deleted, e.At
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the log of erasures: %w", err)
	}
	out := make([]Status, len(order))
	for i, s := range order {
		var last time.Time
		allWithdrawn := len(s.Identifiers) > 0
		for _, id := range s.Identifiers {
			at, ok := withdrawn[id.Hash]
			allWithdrawn = allWithdrawn && ok
			if at.After(last) {
				last = at
			}
		}
		if allWithdrawn {
			s.State, s.WithdrawnAt = Withdrawn, last
		}
		if v, err := record.ParseVersion(s.RequestedAt); err == nil {
			s.Notified, s.Unreachable = receivers[v][0], receivers[v][1]
		}
		out[i] = *s
	}
	slices.SortStableFunc(out, func(a, b Status) int { return cmp.Compare(a.At.UnixMicro(), b.At.UnixMicro()) })
	return out, nil
}

// union returns the elements of both lists, sorted, each once.
func union(a, b []string) []string {
	out := append(slices.Clone(a), b...)
	slices.Sort(out)
	return slices.Compact(out)
}

// ErrNoSuchRequest is returned for a request that does not exist.
var ErrNoSuchRequest = errors.New("no such request")

// Find returns the request whose ID starts with id.
func Find(all []Status, id string) (Status, error) {
	var found []Status
	for _, s := range all {
		if s.RequestID == id {
			return s, nil
		}
		if strings.HasPrefix(s.RequestID, id) {
			found = append(found, s)
		}
	}
	switch len(found) {
	case 0:
		return Status{}, fmt.Errorf("%s: %w; `muster erase list` lists them", id, ErrNoSuchRequest)
	case 1:
		return found[0], nil
	}
	return Status{}, fmt.Errorf("request ID prefix %s is ambiguous: it matches %d requests", id, len(found))
}
