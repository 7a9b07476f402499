package main

import "math/rand/v2"

// fault is the name of a way to break the pipeline.
type fault string

// The kill points: the process, and what it was doing.
const (
	killIngestBefore    fault = "kill ingest: before the broker appends"
	killIngestAfter     fault = "kill ingest: appended, not acknowledged"
	killIngestMid       fault = "kill ingest: in the middle of a file"
	killProjectorBefore fault = "kill projector: before an insert"
	killProjectorMid    fault = "kill projector: in the middle of an insert"
	killProjectorAfter  fault = "kill projector: inserted, not committed"
	killEngineBefore    fault = "kill engine: before an insert"
	killEngineMid       fault = "kill engine: in the middle of an insert"
	killEngineAfter     fault = "kill engine: inserted, not answered"
)

// The other faults.
const (
	brokerAway      fault = "broker: unavailable"
	brokerSilent    fault = "broker: applies requests without responding"
	brokerErrors    fault = "broker: rejects requests with transient errors"
	brokerKilled    fault = "broker: killed and restarted" // with Apache Kafka, instead of the previous one
	storeSlow       fault = "ClickHouse: slow"
	storeRefuses    fault = "ClickHouse: refuses connections"
	storeSilent     fault = "ClickHouse: applies an insert, the response is lost"
	storeFull       fault = "ClickHouse: no space left"
	rebalances      fault = "projectors: rebalances among three"
	outsideProducer fault = "outside producer: poison, and a jumping clock"
)

// faults returns all faults, in the order of the table.
func faults(apache bool) []fault {
	errorsOrKill := brokerErrors
	if apache {
		errorsOrKill = brokerKilled
	}
	return []fault{
		killIngestBefore, killIngestAfter, killIngestMid,
		killProjectorBefore, killProjectorMid, killProjectorAfter,
		killEngineBefore, killEngineMid, killEngineAfter,
		brokerAway, brokerSilent, errorsOrKill,
		storeSlow, storeRefuses, storeSilent, storeFull,
		rebalances, outsideProducer,
	}
}

// faultsPerSeed is the number of faults that a seed draws.
const faultsPerSeed = 4

// draw returns the faults of a seed. Seeds draw from shuffled decks in turn, so that 20 consecutive seeds have
// every fault at least three times.
func draw(seed uint64, apache bool) []fault {
	all := faults(apache)
	out := make([]fault, faultsPerSeed)
	for i := range out {
		place := (seed-1)*faultsPerSeed + uint64(i)
		deck := faults(apache)
		rng := rand.New(rand.NewPCG(place/uint64(len(all)), 1))
		rng.Shuffle(len(deck), func(a, b int) { deck[a], deck[b] = deck[b], deck[a] })
		out[i] = deck[place%uint64(len(all))]
	}
	return out
}
