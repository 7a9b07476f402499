package webhook

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"

	"muster/schemas/event"
	"muster/webhook-sender/internal/delivery"
)

// If the group's offset is lost, or is past the end of a truncated log, the whole week of tasks is
// delivered again. The scheduler remembers only a limited number of finished deliveries, so the
// partition stores a low watermark on the state topic: all tasks below it are finished.

// restore applies a message of the state topic.
func (w *partitionWorker) restore(m *kafka.Message) error {
	if string(m.Key) != event.WebhookLowWatermarkKey {
		return w.scheduler.Restore(m.Key, m.Value)
	}
	if err := json.Unmarshal(m.Value, &w.watermark); err != nil {
		return fmt.Errorf("decode low watermark: %w", err)
	}
	w.newestTime = w.watermark.Newest
	return nil
}

// watermarkChange returns the current low watermark, and whether the one on the state topic is out
// of date.
func (w *partitionWorker) watermarkChange() (event.WebhookLowWatermark, bool) {
	next, ok := w.partition.Finished()
	if !ok {
		return w.watermark, false
	}
	// It moves back only if new tasks have taken offsets that the log lost, after all skipped ones.
	movesBack := next < w.watermark.Offset && next > w.lastSkipped && w.newestTime.After(w.watermark.Newest)
	return event.WebhookLowWatermark{Offset: next, Newest: w.newestTime}, next > w.watermark.Offset || movesBack
}

// nextChange returns the state change to write next, with the watermark that previous changes
// reached.
func (w *partitionWorker) nextChange() delivery.StateChange {
	e := w.scheduler.TakeStateChange()
	if watermark, moved := w.watermarkChange(); moved {
		w.watermark = watermark
		e.States = append(e.States, delivery.State{Key: event.WebhookLowWatermarkKey, LowWatermark: &watermark})
	}
	return e
}
