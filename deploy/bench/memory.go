package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/segmentio/kafka-go"

	"muster/deploy/status"
	"muster/schemas/record"
)

// measureMemory says whether memory grows with the number of records: it projects
// small ones, a tenth of them first.
func measureMemory(ctx context.Context, o options, out io.Writer) (err error) {
	s, err := newBench(o).stage(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	if err := s.project(ctx); err != nil {
		return err
	}
	published := 0
	upTo := func(n int) (projector, engine int64, err error) {
		for published < n {
			var messages []kafka.Message
			for range min(5000, n-published) {
				rec, err := record.Decode(record.KindAccountLink, fmt.Appendf(nil,
					`{"a":{"platform":"codehost","username":"c%d"},"b":{"platform":"network","username":"n%d"},"source":"bench","observed_at":"2026-01-01","confidence":0.5}`, published, published))
				if err != nil {
					return 0, 0, fmt.Errorf("decode an invented link: %w", err)
				}
				messages = append(messages, kafka.Message{Topic: rec.Kind.Topic(), Key: []byte(rec.Key), Value: rec.JSON})
				published++
			}
			if err := s.publish(ctx, messages); err != nil {
				return 0, 0, err
			}
		}
		if err := status.Wait(ctx, s.source(), nil); err != nil {
			return 0, 0, err
		}
		if _, projector, err = process(s.running.Process.Pid); err != nil {
			return 0, 0, err
		}
		_, engine, err = process(s.engine.PID())
		return projector, engine, err
	}
	few, total := s.bench.records/10, s.bench.records
	projectorFew, engineFew, err := upTo(few)
	if err != nil {
		return err
	}
	projectorAll, engineAll, err := upTo(total)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  resident after %d small records: projector %d MB, engine %d MB; after %d: projector %d MB, engine %d MB\n",
		few, projectorFew>>20, engineFew>>20, total, projectorAll>>20, engineAll>>20)
	fmt.Fprintf(out, "  ratio: projector %.2f, engine %.2f, together %.2f\n", float64(projectorAll)/float64(projectorFew),
		float64(engineAll)/float64(engineFew), float64(projectorAll+engineAll)/float64(projectorFew+engineFew))
	return nil
}
