package projector

import (
	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/readmodel"
)

// ContextGroup is the consumer group of the projection of context calls.
const ContextGroup = "muster.projector.context"

func (p *Projector) newContextConsumer() (*bus.BatchConsumer, error) {
	return p.newEventConsumer(ContextGroup, event.TopicContext, p.cfg.MaxAge,
		projectEvents(p, "context", func(rows *readmodel.ContextBatch, c *event.Context, at readmodel.Position) error {
			if erasedContext(p.deps.Suppressed, c) {
				return nil // The call was running at the time of the erasure, or the topic is replayed.
			}
			return rows.Add(c, at)
		}, readmodel.InsertContexts))
}
