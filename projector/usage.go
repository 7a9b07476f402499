package projector

import (
	"time"

	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/readmodel"
)

// UsageGroup is the consumer group of the ledger's projection.
const UsageGroup = readmodel.UsageGroup

// usageMaxBatchAge is the maximum age of a batch of usage events. Readers query balances, not these rows, so
// latency does not matter; an insert of ten rows costs the engine almost as much as one of hundreds.
const usageMaxBatchAge = 4 * time.Second

func (p *Projector) newUsageConsumer() (*bus.BatchConsumer, error) {
	return p.newEventConsumer(p.cfg.UsageGroup, event.TopicUsage, usageMaxBatchAge, projectEvents(p, "usage",
		func(rows *readmodel.UsageBatch, u *event.Usage, at readmodel.Position) error {
			rows.Add(u, at)
			return nil
		}, readmodel.InsertUsage))
}
