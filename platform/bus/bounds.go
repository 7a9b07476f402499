package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/listoffsets"
)

// listOffsets returns the first and end offsets of the partitions, sorted by topic and partition.
func listOffsets(ctx context.Context, client *kafka.Client, tps []topicPartition) ([]PartitionOffsets, error) {
	if len(tps) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	res, err := client.Transport.RoundTrip(ctx, client.Addr, &boundsRequest{tps})
	if err != nil {
		return nil, fmt.Errorf("list offsets: %w", err)
	}
	bounds := res.(*boundsResponse)
	out := make([]PartitionOffsets, 0, len(tps))
	for _, tp := range tps {
		first, okFirst := bounds.first[tp]
		end, okEnd := bounds.end[tp]
		if !okFirst || !okEnd {
			return nil, errors.New("list offsets: incomplete response")
		}
		out = append(out, PartitionOffsets{Topic: tp.topic, Partition: tp.partition, First: first, End: end})
	}
	slices.SortFunc(out, func(a, b PartitionOffsets) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return out, nil
}

// boundsRequest requests the offsets of partitions with two requests to each leader. kafka-go sends two requests for
// each partition, each on a separate connection.
type boundsRequest struct{ partitions []topicPartition }

// ApiKey implements [protocol.Message].
func (*boundsRequest) ApiKey() protocol.ApiKey { return protocol.ListOffsets }

// Split implements [protocol.Splitter].
func (r *boundsRequest) Split(cluster protocol.Cluster) ([]protocol.Message, protocol.Merger, error) {
	byLeader := make(map[int32]map[string][]listoffsets.RequestPartition)
	for _, tp := range r.partitions {
		id := int32(tp.partition) //nolint:gosec // partition numbers are int32 in the protocol
		leader := leaderOf(cluster, tp.topic, id)
		if byLeader[leader] == nil {
			byLeader[leader] = make(map[string][]listoffsets.RequestPartition)
		}
		partition := listoffsets.RequestPartition{Partition: id, CurrentLeaderEpoch: -1}
		byLeader[leader][tp.topic] = append(byLeader[leader][tp.topic], partition)
	}
	var messages []protocol.Message
	for _, topics := range byLeader {
		// Brokers reject a request that names a partition twice.
		for _, timestamp := range []int64{kafka.FirstOffset, kafka.LastOffset} {
			m := &leaderRequest{ReplicaID: -1}
			for topic, partitions := range topics {
				requested := slices.Clone(partitions)
				for i := range requested {
					requested[i].Timestamp = timestamp
				}
				m.Topics = append(m.Topics, listoffsets.RequestTopic{Topic: topic, Partitions: requested})
			}
			messages = append(messages, m)
		}
	}
	return messages, &boundsResponse{first: make(map[topicPartition]int64), end: make(map[topicPartition]int64)}, nil
}

// leaderOf returns the leader of a partition, or -1 if it is unknown: any broker then returns the error.
func leaderOf(cluster protocol.Cluster, topic string, partition int32) int32 {
	if p, ok := cluster.Topics[topic].Partitions[partition]; ok {
		return p.Leader
	}
	return -1
}

// leaderRequest is a ListOffsets request for partitions with the same leader.
type leaderRequest listoffsets.Request

// ApiKey implements [protocol.Message].
func (*leaderRequest) ApiKey() protocol.ApiKey { return protocol.ListOffsets }

// Broker implements [protocol.BrokerMessage].
func (r *leaderRequest) Broker(cluster protocol.Cluster) (protocol.Broker, error) {
	leader := leaderOf(cluster, r.Topics[0].Topic, r.Topics[0].Partitions[0].Partition)
	if b, ok := cluster.Brokers[leader]; ok {
		return b, nil
	}
	return protocol.Broker{ID: -1}, nil
}

// boundsResponse is the merged response of all leaders.
type boundsResponse struct{ first, end map[topicPartition]int64 }

// ApiKey implements [protocol.Message].
func (*boundsResponse) ApiKey() protocol.ApiKey { return protocol.ListOffsets }

// Merge implements [protocol.Merger].
func (r *boundsResponse) Merge(requests []protocol.Message, results []any) (protocol.Message, error) {
	for i, result := range results {
		m, err := protocol.Result(result)
		if err != nil {
			return nil, err
		}
		to := r.end
		if requests[i].(*leaderRequest).Topics[0].Partitions[0].Timestamp == kafka.FirstOffset {
			to = r.first
		}
		for _, t := range m.(*listoffsets.Response).Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					return nil, fmt.Errorf("%s/%d: %w", t.Topic, p.Partition, kafka.Error(p.ErrorCode))
				}
				to[topicPartition{t.Topic, int(p.Partition)}] = p.Offset
			}
		}
	}
	return r, nil
}

var (
	_ protocol.Splitter      = (*boundsRequest)(nil)
	_ protocol.BrokerMessage = (*leaderRequest)(nil)
	_ protocol.Merger        = (*boundsResponse)(nil)
)
