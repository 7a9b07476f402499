package broker

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"muster/platform/internal/recordbatch/recordbatchtest"
)

func produceOf(version int16, batches ...[]byte) []byte {
	p := kmsg.NewPtrProduceRequest()
	p.Version, p.Acks = version, -1
	p.TransactionID = kmsg.StringPtr("tx")
	for _, name := range []string{"a", "b"} {
		t := kmsg.NewProduceRequestTopic()
		t.Topic = name
		for i, b := range batches {
			part := kmsg.NewProduceRequestTopicPartition()
			part.Partition, part.Records = int32(i), b
			t.Partitions = append(t.Partitions, part)
		}
		p.Topics = append(p.Topics, t)
	}
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("x")).AppendRequest(nil, p, 1)
}

func TestEachProduced_FindsTheBatchesThatKfakeFinds(t *testing.T) {
	want := [][]byte{[]byte("one"), nil, []byte("three")}
	for version := int16(minProduceVersion); version <= maxProduceVersion; version++ {
		raw := produceOf(version, want...)
		var got [][]byte
		var names []string
		acks, err := eachProduced(parseRequest(raw), raw, func(tp topicPartition, records []byte) {
			names = append(names, tp.topic)
			require.EqualValues(t, len(got)%3, tp.partition)
			got = append(got, records)
		})
		require.NoError(t, err)
		require.EqualValues(t, -1, acks)
		require.Equal(t, []string{"a", "a", "a", "b", "b", "b"}, names)
		require.Equal(t, append(want, want...), got, "version %d", version)
	}
}

// FuzzRequest checks requests as a connection does. Those that pass must be parsed by kfake's parser, and quickly.
func FuzzRequest(f *testing.F) {
	for version := int16(minProduceVersion); version <= maxProduceVersion; version++ {
		f.Add(produceOf(version, recordbatchtest.Good("x"), recordbatchtest.Poison()[0].Raw))
	}
	for version := range int16(6) {
		r := kmsg.NewPtrApiVersionsRequest()
		r.ClientSoftwareName, r.ClientSoftwareVersion, r.Version = "a", "b", version
		f.Add(kmsg.NewRequestFormatter().AppendRequest(nil, r, 1))
	}
	for version := range int16(3) {
		r := kmsg.NewPtrSASLAuthenticateRequest()
		r.SASLAuthBytes, r.Version = []byte("\x00a\x00b"), version
		f.Add(kmsg.NewRequestFormatter().AppendRequest(nil, r, 1))
	}
	v := newBatchValidator()
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) < headerBytes {
			return
		}
		raw = raw[:len(raw):len(raw)]
		r := parseRequest(raw)
		r.size = uint32(len(raw) - 4)
		for _, authenticated := range []bool{false, true} {
			if r.check(authenticated) != nil {
				continue
			}
			switch {
			case !authenticated:
				if new(login).onRequest(r, raw) == nil {
					for attempt := 1; ; attempt++ { // a busy machine may delay one attempt
						reader, kind := r.body(raw)
						start := time.Now()
						require.NoError(t, kind.ReadFrom(reader.Src))
						if time.Since(start) < time.Second {
							break
						}
						require.Less(t, attempt, 3, "parsing takes a second or more")
					}
				}
			case r.is(kmsg.Produce):
				if _, err := v.validateProduce(r, raw, slog.New(slog.DiscardHandler)); err != nil {
					continue
				}
				reader, kind := r.body(raw)
				require.NoError(t, kind.ReadFrom(reader.Src))
				var want, got int
				for _, topic := range kind.(*kmsg.ProduceRequest).Topics {
					want += len(topic.Partitions)
				}
				_, err := eachProduced(r, raw, func(topicPartition, []byte) { got++ })
				require.NoError(t, err)
				require.Equal(t, want, got)
			}
		}
	})
}
