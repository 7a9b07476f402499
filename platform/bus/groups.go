package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"
)

// DeleteGroup deletes a group and its committed offsets. It succeeds if the group does not exist, and fails if it has
// members.
func DeleteGroup(ctx context.Context, cfg Config, group string) error {
	if err := cfg.validate(); err != nil {
		return fmt.Errorf("delete group %s: %w", group, err)
	}
	tr := cfg.transport()
	defer tr.CloseIdleConnections()
	res, err := cfg.client(tr).DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
	if err == nil {
		err = res.Errors[group]
	}
	if err != nil && !errors.Is(err, kafka.GroupIdNotFound) {
		return fmt.Errorf("delete group %s: %w", group, err)
	}
	return nil
}
