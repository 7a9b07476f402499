package readstore

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"

	"muster/schemas/event"
	"muster/schemas/readmodel"
)

// Discovery returns the newest kept result for an account, whose username is a
// comparison form; nil when there is none.
func (s *Store) Discovery(ctx context.Context, platform, usernameKey string) (*event.Discovery, error) {
	found, err := s.discoveries.Get(ctx, []uint64{readmodel.DiscoveryHash(platform, usernameKey)})
	if err != nil {
		return nil, err
	}
	for _, r := range found[0] {
		if r.Platform != platform || r.UsernameKey != usernameKey {
			continue
		}
		var d event.Discovery
		if err := json.Unmarshal([]byte(r.Result), &d); err != nil {
			return nil, fmt.Errorf("read kept discovery: %w", err)
		}
		s.Forget(&d)
		return &d, nil
	}
	return nil, nil
}
