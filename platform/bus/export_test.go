package bus

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"
)

// GetMessageEvent returns the event of msg. Its error wraps [ErrNotAnEvent].
func GetMessageEvent(msg *message.Message) (Event, error) {
	return getEvent(metadataCarrier(msg.Metadata), msg.UUID)
}

// GroupLag returns the lag of a group in partitions whose bounds were read before.
func GroupLag(ctx context.Context, cfg Config, group string, offsets []PartitionOffsets) ([]PartitionLag, error) {
	tr := cfg.transport()
	defer tr.CloseIdleConnections()
	return groupLag(ctx, cfg.client(tr), group, offsets)
}
