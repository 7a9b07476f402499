package projector

import (
	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/suppress"
)

// DiscoveryGroup is the consumer group of the projection of discovery's results.
const DiscoveryGroup = "muster.projector.discovery"

func (p *Projector) newDiscoveryConsumer() (*bus.BatchConsumer, error) {
	return p.newEventConsumer(DiscoveryGroup, event.TopicDiscovery, p.cfg.MaxAge, projectEvents(p, "discovery",
		func(rows *readmodel.DiscoveryBatch, d *event.Discovery, at readmodel.Position) error {
			if !d.Complete() {
				return nil // An incomplete result is valid for its own call only.
			}
			if erasedDiscovery(p.deps.Suppressed, d) {
				return nil
			}
			return rows.Add(d, at)
		}, readmodel.InsertDiscoveries))
}

// erasedDiscovery reports whether a result names an erased person. Results that were in flight at the time of
// the erasure can, as can a worker's result that found no data.
func erasedDiscovery(set *suppress.Set, d *event.Discovery) bool {
	for _, p := range append(d.Socials, event.Social{Account: d.Input}) {
		_, byName := set.Account(p.Platform, identity.NormalizeUsername(p.Username))
		_, byID := set.ID(p.Platform, p.Identity)
		if byName || byID {
			return true
		}
	}
	return false
}
