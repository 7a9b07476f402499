package projector

import (
	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/readmodel"
)

// DiscoveryGroup is the consumer group of the projection of discovery's results.
const DiscoveryGroup = "muster.projector.discovery"

func (p *Projector) newDiscoveryConsumer() (*bus.BatchConsumer, error) {
	return p.newEventConsumer(DiscoveryGroup, event.TopicDiscovery, p.cfg.MaxAge, handleEvents(p, "discovery",
		func(rows *readmodel.DiscoveryBatch, d *event.Discovery, at readmodel.Position) error {
			if !d.Complete() {
				return nil // what lacks a stage is the answer to one call and not worth keeping
			}
			return rows.Add(d, at)
		}, readmodel.InsertDiscoveries))
}
