package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muster/platform/broker"
)

// kafkaServer is the broker of a seed, behind Toxiproxy.
type kafkaServer interface {
	// onAppend calls act for every append request until remove is called. If act returns true, the request is lost:
	// with applied, the records are appended and only the response is dropped; else nothing is appended.
	onAppend(applied bool, act func() bool) (remove func())
	// injectFault makes the broker fail briefly, and returns when it has recovered.
	injectFault(ctx context.Context, feed func() error) error
	// compact compacts every compacted topic.
	compact(ctx context.Context) error
	close() error
}

// embedded is the broker of `muster up`, with its hooks.
type embedded struct{ broker *broker.Broker }

func startEmbedded(ctx context.Context, dir, addr, advertise string) (kafkaServer, error) {
	b, err := broker.Start(ctx, broker.Config{DataDir: dir, Addr: addr, Advertise: advertise})
	if err != nil {
		return nil, err
	}
	return embedded{b}, nil
}

func (e embedded) onAppend(applied bool, act func() bool) func() {
	refusal := kerr.NotLeaderForPartition
	if applied {
		refusal = nil
	}
	handle := e.broker.Cluster().Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Count: -1, Err: refusal, Observe: applied,
		When: func(req kmsg.Request) bool {
			produce, ok := req.(*kmsg.ProduceRequest)
			if !ok {
				return false
			}
			for _, t := range produce.Topics {
				if holdsRecords(t.Topic) {
					return act()
				}
			}
			return false
		},
	})
	return func() { handle.Remove() }
}

// injectFault rejects some requests of each kind that the pipeline uses.
func (e embedded) injectFault(_ context.Context, feed func() error) error {
	hits := func() int { return 0 }
	for key, err := range map[kmsg.Key]*kerr.Error{
		kmsg.Produce:      kerr.NotEnoughReplicas,
		kmsg.Fetch:        kerr.NotLeaderForPartition,
		kmsg.OffsetCommit: kerr.CoordinatorLoadInProgress,
	} {
		handle := e.broker.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{key}, Count: 3, Err: err})
		defer handle.Remove()
		rest := hits
		hits = func() int { return rest() + handle.Hits() }
	}
	if err := feed(); err != nil {
		return err
	}
	if hits() == 0 {
		return errDidNotHappen
	}
	return nil
}

func (e embedded) compact(ctx context.Context) error { return e.broker.Compact(ctx) }

func (e embedded) close() error { return e.broker.Close() }
