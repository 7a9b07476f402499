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
		handleEvents(p, "context", (*readmodel.ContextBatch).Add, readmodel.InsertContexts))
}
