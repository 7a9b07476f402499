package projector

import (
	"time"

	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/readmodel"
)

// UsageGroup is the consumer group of the ledger's projection.
const UsageGroup = readmodel.UsageGroup

// usageAge is how old a batch of the ledger may get: nobody waits for its rows,
// since callers ask the balances, and an insert of ten rows costs the engine nearly what
// one of hundreds does.
const usageAge = 4 * time.Second

func (p *Projector) newUsageConsumer() (*bus.BatchConsumer, error) {
	return p.newEventConsumer(p.cfg.UsageGroup, event.TopicUsage, usageAge, handleEvents(p, "usage",
		func(rows *readmodel.UsageBatch, u *event.Usage, at readmodel.Position) error {
			rows.Add(u, at)
			return nil
		}, readmodel.InsertUsage))
}
