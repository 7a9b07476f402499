package readstore

import (
	"context"
	"errors"
	"fmt"

	"muster/schemas/readmodel"
)

// Suggest returns up to limit values of a field that begin with a prefix (readmodel.Suggest).
func (s *Store) Suggest(ctx context.Context, field, prefix string, limit int) ([]readmodel.Suggestion, error) {
	ctx, cancel := context.WithTimeout(ctx, s.queryTimeout)
	defer cancel()
	found, err := readmodel.Suggest(ctx, s.conn, field, prefix, limit)
	if err != nil && !errors.Is(err, context.Canceled) {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return found, err
}
