package main

import "math/rand/v2"

// fault names one way to break the pipeline.
type fault string

// The kill points: which process, and what it was doing.
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
	brokerAway      fault = "broker: away"
	brokerSilent    fault = "broker: applies, answers nothing"
	brokerErrors    fault = "broker: refuses requests with transient errors"
	brokerKilled    fault = "broker: killed and started again" // in the place of the one before, on Apache Kafka
	storeSlow       fault = "ClickHouse: slow"
	storeRefuses    fault = "ClickHouse: refuses connections"
	storeSilent     fault = "ClickHouse: applies an insert, the answer is lost"
	storeFull       fault = "ClickHouse: no space left"
	rebalances      fault = "projectors: rebalances among three"
	outsideProducer fault = "outside producer: poison, and a clock that steps"
)

// faults are all of them, in the order of the table.
func faults(apache bool) []fault {
	trouble := brokerErrors
	if apache {
		trouble = brokerKilled
	}
	return []fault{
		killIngestBefore, killIngestAfter, killIngestMid,
		killProjectorBefore, killProjectorMid, killProjectorAfter,
		killEngineBefore, killEngineMid, killEngineAfter,
		brokerAway, brokerSilent, trouble,
		storeSlow, storeRefuses, storeSilent, storeFull,
		rebalances, outsideProducer,
	}
}

// faultsPerSeed is how many faults one seed draws.
const faultsPerSeed = 4

// draw returns the faults of a seed. Seeds take turns at shuffled decks, so
// that any 20 consecutive ones hold every fault three times at least.
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
