package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/segmentio/kafka-go"

	"muster/deploy/internal/status"
	"muster/schemas/record"
)

// measureMemory measures whether memory grows with the number of records: it projects a tenth of the small records
// first.
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
					`{"a":{"platform":"codehost","username":"c%d"},"b":{"platform":"network","username":"n%d"},`+
						`"source":"bench","observed_at":"2026-01-01","confidence":0.5}`, published, published))
				if err != nil {
					return 0, 0, fmt.Errorf("decode a generated link: %w", err)
				}
				messages = append(messages,
					kafka.Message{Topic: rec.Kind.Topic(), Key: []byte(rec.Key), Value: rec.JSON})
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
		if _, engine, err = process(s.engine.PID()); err != nil {
			return 0, 0, err
		}
		return projector, engine, s.accounts(ctx, n, out)
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
	fmt.Fprintf(out,
		"  resident after %d small records: projector %d MB, engine %d MB; after %d: projector %d MB, engine %d MB\n",
		few, projectorFew>>20, engineFew>>20, total, projectorAll>>20, engineAll>>20)
	fmt.Fprintf(out, "  ratio: projector %.2f, engine %.2f, together %.2f\n",
		float64(projectorAll)/float64(projectorFew),
		float64(engineAll)/float64(engineFew), float64(projectorAll+engineAll)/float64(projectorFew+engineFew))
	return nil
}

// accounts prints the components of the engine's memory: anonymous pages, pages of its library and files, and its own
// counters.
func (s *stage) accounts(ctx context.Context, records int, out io.Writer) error {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(s.engine.PID()), "status"))
	if err != nil {
		return fmt.Errorf("read the engine's memory: %w", err)
	}
	fmt.Fprintf(out, "  engine after %d:", records)
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		if kB, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB")); err == nil &&
			strings.HasPrefix(name, "Rss") {
			fmt.Fprintf(out, " %s %d MB", name, kB>>10)
		}
	}
	var tracked, caches int64
	var keys, parts uint64
	if err := s.conn.QueryRow(ctx, `SELECT sumIf(value, metric = 'MemoryTracking'), sumIf(value,
	    metric LIKE '%CacheBytes'),
		ifNull((SELECT sum(primary_key_bytes_in_memory_allocated) FROM system.parts), 0), ifNull((SELECT count()
		    FROM system.parts), 0) FROM system.metrics`).
		Scan(&tracked, &caches, &keys, &parts); err != nil {
		return fmt.Errorf("read the engine's memory metrics: %w", err)
	}
	fmt.Fprintf(out, ", tracked %d MB, caches %d MB, primary keys %d kB, %d parts\n", tracked>>20, caches>>20,
		keys>>10, parts)
	return nil
}
