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
		handleEvents(p, "context", func(rows *readmodel.ContextBatch, c *event.Context, at readmodel.Position) error {
			if erasedContext(p.deps.Suppressed, c) {
				return nil // it was under way when they were, or the topic is read again
			}
			return rows.Add(c, at)
		}, readmodel.InsertContexts))
}
