package answers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/record"
)

// Touch requests builds of the answers of accounts. The versions are those of the accounts' newest changed rows, 0 if
// they are unknown. The touches are durable when it returns.
func Touch(ctx context.Context, w *bus.Writer, accounts map[int64]int64) error {
	tasks := make([]event.AnswerTask, 0, len(accounts))
	for _, id := range slices.Sorted(maps.Keys(accounts)) {
		tasks = append(tasks, event.AnswerTask{
			Kind: record.KindCodehostPerson, ID: formatID(id), Version: accounts[id],
		})
	}
	return publishTouches(ctx, w, event.TopicAnswerTask, tasks)
}

// TouchLinks requests that the people who are linked with accounts, or may be now, are linked again, once the builds
// that were requested before are done. The touches are durable when it returns.
func TouchLinks(ctx context.Context, w *bus.Writer, accounts []int64) error {
	return publishTouches(ctx, w, event.TopicAnswerTask, accountTasks(accounts, event.AnswerTask{Linking: true}))
}

// accountTasks returns touches of accounts with the marks of one.
func accountTasks(accounts []int64, like event.AnswerTask) []event.AnswerTask {
	tasks := make([]event.AnswerTask, len(accounts))
	for i, id := range accounts {
		like.Kind, like.ID = record.KindCodehostPerson, formatID(id)
		tasks[i] = like
	}
	return tasks
}

// TouchDocuments publishes touches with the kind and the marks of one. Without marks they request that the documents of
// network people or companies in the search index are written again, and that the linked accounts of people, or of
// those whom account-links name, are read again. The versions are those of their newest changed rows, 0 if they are
// unknown. The touches are durable when it returns.
func TouchDocuments(ctx context.Context, w *bus.Writer, like event.AnswerTask, ids map[string]int64) error {
	tasks := make([]event.AnswerTask, 0, len(ids))
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		like.ID, like.Version = id, ids[id]
		tasks = append(tasks, like)
	}
	return publishTouches(ctx, w, event.TopicAnswerTask, tasks)
}

func formatID(id int64) string { return strconv.FormatInt(id, 10) }

// publishTouches publishes touches durably.
func publishTouches(ctx context.Context, w *bus.Writer, topic string, tasks []event.AnswerTask) error {
	messages := make([]kafka.Message, 0, len(tasks))
	now := time.Now().UTC()
	for _, t := range tasks {
		value, err := json.Marshal(t)
		if err != nil {
			return fmt.Errorf("encode touch: %w", err)
		}
		messages = append(messages, kafka.Message{
			Topic: topic, Key: []byte(t.MessageKey()), Value: value,
			Headers: bus.SetEvent(nil, bus.Event{
				ID: t.MessageKey(), Type: event.TypeAnswerTask, Source: "/muster/projector", Time: now,
				ContentType: "application/json",
			}),
		})
	}
	if err := bus.WriteAll(ctx, w, messages); err != nil {
		return fmt.Errorf("publish touches: %w", err)
	}
	return nil
}
