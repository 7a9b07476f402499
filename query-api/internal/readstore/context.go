package readstore

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"

	"muster/schemas/event"
	"muster/schemas/readmodel"
)

// Context returns the state of a context call of an organization; nil if there is none.
func (s *Store) Context(ctx context.Context, organization, requestID string) (*event.Context, error) {
	found, err := s.contexts.Get(ctx, []uint64{readmodel.ContextHash(requestID)})
	if err != nil {
		return nil, err
	}
	for _, r := range found[0] {
		if r.RequestID != requestID || r.OrganizationID != organization {
			continue
		}
		var c event.Context
		if err := json.Unmarshal([]byte(r.Result), &c); err != nil {
			return nil, fmt.Errorf("decode stored context: %w", err)
		}
		return &c, nil
	}
	return nil, nil
}
