package bus

import (
	"context"
	"fmt"

	"github.com/segmentio/kafka-go"
)

// ClusterID returns the ID of a cluster, which it generates when it is created and keeps with its data. It is empty if
// the brokers have none.
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
