package bus

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

func TestAssemble_OffersBatchWhenOldOrIdle(t *testing.T) {
	for _, tc := range []struct {
		name      string
		idle      time.Duration
		every     time.Duration
		messages  int
		at, sizes []int // of the batches; milliseconds after the start
	}{
		{"steady", 1500 * time.Millisecond, time.Second, 10, []int{4500, 9500}, []int{5, 5}},
		{"single", 1500 * time.Millisecond, time.Second, 1, []int{1500}, []int{1}},
		{"sparse", 1500 * time.Millisecond, 2 * time.Second, 3, []int{1500, 3500, 5500}, []int{1, 1, 1}},
		{"no idle limit", 0, 2 * time.Second, 3, []int{4500}, []int{3}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				c := &BatchConsumer{cfg: BatchConsumerConfig{
					MaxMessages: 1000, MaxBytes: 1 << 20, MaxAge: 4500 * time.Millisecond, MaxIdle: tc.idle,
				}}
				chunks, ready := make(chan chunk), make(chan Batch)
				done := make(chan struct{})
				go func() {
					defer close(done)
					c.assemble(ctx, chunks, ready)
				}()
				go func() {
					for i := range tc.messages {
						chunks <- chunk{messages: []kafka.Message{{Offset: int64(i)}}}
						<-time.After(tc.every)
					}
				}()
				began := time.Now()
				for i, at := range tc.at {
					b := <-ready
					require.Equal(t, time.Duration(at)*time.Millisecond, time.Since(began))
					require.Len(t, b.Messages, tc.sizes[i])
				}
				<-time.After(time.Minute)
				stop()
				<-done
			})
		})
	}
}
