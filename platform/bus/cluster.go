package bus

import (
	"context"
	"fmt"

	"github.com/segmentio/kafka-go"
)

// ClusterID returns the name that a cluster gave itself when it was made; it is the
// same for all of its brokers and for as long as it keeps its data. It is empty for
// brokers that have none.
func ClusterID(ctx context.Context, cfg Config) (string, error) {
	if err := cfg.validate(); err != nil {
		return "", fmt.Errorf("cluster id: %w", err)
	}
	tr := cfg.transport()
	defer tr.CloseIdleConnections()
	res, err := cfg.client(tr).Metadata(ctx, &kafka.MetadataRequest{})
	if err != nil {
		return "", fmt.Errorf("cluster id: %w", err)
	}
	return res.ClusterID, nil
}
