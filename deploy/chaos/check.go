package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	"muster/platform/clickhouse"
	"muster/projector"
	"muster/projector/project"
	"muster/projector/replay"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

const projectorGroup = projector.Group

// tables returns the table and the key expression of each kind.
func tables() map[record.Kind]struct{ table, key string } {
	return map[record.Kind]struct{ table, key string }{
		record.KindNetworkPerson:  {"network_people", "profile_id"},
		record.KindCodehostPerson: {"codehost_people", "toString(user_id)"},
		record.KindCodehostRepo:   {"codehost_repos", "concat(toString(user_id), '/', toString(repo_id))"},
	}
}

// visible returns the newest version of every key in a database.
func (r *rig) visible(ctx context.Context, database string) (map[identity]record.Version, error) {
	out := make(map[identity]record.Version)
	for kind, where := range tables() {
		// A newer version of unchanged content is in a separate table.
		rows, err := r.store.admin.Query(ctx, fmt.Sprintf(`SELECT m.key, greatest(m.version, s.version), m.times
			FROM (SELECT %[1]s AS key, version, content_hash, count() OVER (PARTITION BY %[1]s) AS times
			    FROM %[2]s.%[3]s FINAL) m
			LEFT JOIN (SELECT key, content_hash, max(version) AS version FROM %[2]s.seen_versions
			    WHERE kind = '%[4]s' GROUP BY key, content_hash) s
			ON m.key = s.key AND m.content_hash = s.content_hash`, where.key, database, where.table, kind))
		if err != nil {
			return nil, err
		}
		for rows.Next() {
			var key string
			var version int64
			var times uint64
			if err := rows.Scan(&key, &version, &times); err != nil {
				return nil, errors.Join(err, rows.Close())
			}
			if times != 1 {
				return nil, errors.Join(fmt.Errorf("%s %s: %d rows, want 1", kind, key, times), rows.Close())
			}
			out[identity{kind, key}] = record.Version(version)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// holdsNewest compares a database with the generated data. For identities in except, any version is accepted.
func (r *rig) holdsNewest(ctx context.Context, database string, except map[identity]bool) error {
	got, err := r.visible(ctx, database)
	if err != nil {
		return err
	}
	var wrong []string
	for id, want := range r.world.newest {
		if v, ok := got[id]; !ok || v != want && !except[id] {
			wrong = append(wrong, fmt.Sprintf("%s %s: found %t as of %s, want %s", id.kind, id.key, ok, v, want))
		}
	}
	if len(got) != len(r.world.newest) || len(wrong) > 0 {
		return fmt.Errorf("%s: %d identities, want %d; wrong: %d: %s", database, len(got),
			len(r.world.newest), len(wrong),
			strings.Join(wrong[:min(3, len(wrong))], "; "))
	}
	return nil
}

// committedIsInserted checks that no committed offset is ahead of the tables' content, while records may be in flight.
func (r *rig) committedIsInserted(ctx context.Context) error {
	lags, err := bus.Lag(ctx, r.kafka, projectorGroup, projector.Topics())
	if err != nil {
		return err
	}
	committed := make(map[string]map[int]int64)
	for _, l := range lags {
		if committed[l.Topic] == nil {
			committed[l.Topic] = make(map[int]int64)
		}
		committed[l.Topic][l.Partition] = l.Committed
	}
	var got map[identity]record.Version
	if err := poll(ctx, waitTimeout, "the engine responds", func() (bool, error) {
		got, err = r.visible(ctx, r.database)
		return err == nil, nil
	}); err != nil {
		return err
	}
	for kind := range tables() {
		err := r.read(ctx, kind.Topic(), func(m kafka.Message) error {
			if m.Offset >= committed[m.Topic][m.Partition] {
				return nil
			}
			rec, err := record.Decode(kind, m.Value)
			if err != nil {
				return nil //nolint:nilerr // poison: it belongs to the rejected topic
			}
			if v, ok := got[identity{kind, rec.Key}]; !ok || v < rec.Version {
				return fmt.Errorf("%s/%d@%d is committed, but %s %s is missing as of %s", m.Topic, m.Partition,
					m.Offset, kind, rec.Key, rec.Version)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// read calls do for every message of a topic.
func (r *rig) read(ctx context.Context, topic string, do func(kafka.Message) error) error {
	var mu sync.Mutex
	var failed error
	f := bus.Follow(ctx, r.kafka, bus.FollowConfig{Topics: []string{topic}, MaxWait: 100 * time.Millisecond,
		Handle: func(_ context.Context, m kafka.Message) error {
			mu.Lock()
			defer mu.Unlock()
			if failed == nil {
				failed = do(m)
			}
			return nil
		}})
	return errors.Join(f.WaitReady(ctx), f.Close(), failed)
}

// rejectedIsPoison checks that exactly the injected poison was rejected.
func (r *rig) rejectedIsPoison(ctx context.Context) error {
	places := make(map[string]string)
	err := r.read(ctx, event.TopicRejected, func(m kafka.Message) error {
		var rejected event.Rejected
		if err := json.Unmarshal(m.Value, &rejected); err != nil {
			return err
		}
		places[rejected.Source.String()] = rejected.Reason
		return nil
	})
	if err != nil {
		return err
	}
	if len(places) != r.world.poison {
		return fmt.Errorf("%d records were rejected, %d were poison: %v", len(places), r.world.poison, places)
	}
	return nil
}

// project projects the same topics into another database without faults.
func (r *rig) project(ctx context.Context, database string) (err error) {
	if err := r.store.tables(ctx, database); err != nil {
		return err
	}
	conn, err := clickhouse.Open(ctx, clickhouse.Config{DSN: r.store.dsn(r.store.addr, database)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	p, err := projector.New(projector.Config{Config: project.Config{Kafka: r.kafka, Group: database}},
		project.Deps{Conn: conn, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- p.Run(running) }()
	err = r.drained(ctx, database, 4*waitTimeout)
	cancel()
	return errors.Join(err, <-ended)
}

// sameTables compares every table, without the positions of rows: records that are published again have others.
func (r *rig) sameTables(ctx context.Context, a, b string) error {
	for _, table := range readmodel.Tables() {
		for _, pair := range [][2]string{{a, b}, {b, a}} {
			var n uint64
			query := fmt.Sprintf(`SELECT count() FROM (SELECT * EXCEPT (topic, partition, offset) FROM %s.%s FINAL
				EXCEPT SELECT * EXCEPT (topic, partition, offset) FROM %s.%s FINAL)`, pair[0], table, pair[1], table)
			if err := r.store.admin.QueryRow(ctx, query).Scan(&n); err != nil {
				return fmt.Errorf("compare %s: %w", table, err)
			}
			if n > 0 {
				return fmt.Errorf("%d rows of %s.%s are not in %s", n, pair[0], table, pair[1])
			}
		}
	}
	return nil
}

// invariants checks everything after the faults.
func (r *rig) invariants(ctx context.Context) error {
	if err := r.drained(ctx, projectorGroup, 4*waitTimeout); err != nil {
		return err
	}
	if err := errors.Join(r.holdsNewest(ctx, r.database, nil), r.committedIsInserted(ctx),
		r.rejectedIsPoison(ctx)); err != nil {
		return err
	}
	if err := r.answersAreBuilt(ctx); err != nil {
		return err
	}
	undisturbed, compacted := r.database+"_undisturbed", r.database+"_compacted"
	if err := r.project(ctx, undisturbed); err != nil {
		return fmt.Errorf("projection without faults: %w", err)
	}
	if err := r.sameTables(ctx, r.database, undisturbed); err != nil {
		return err
	}
	if err := r.server.compact(ctx); errors.Is(err, errors.ErrUnsupported) {
		return nil
	} else if err != nil {
		return err
	}
	if err := r.project(ctx, compacted); err != nil {
		return fmt.Errorf("projection after compaction: %w", err)
	}
	// Compaction keeps the last offset of a key. For keys that only ingest wrote, that is the newest version, since
	// ingest sends no older one after it. For other keys, a replay takes the newer of topic and table.
	if err := r.holdsNewest(ctx, compacted, r.world.outside); err != nil {
		return err
	}
	if len(r.world.outside) == 0 {
		return nil
	}
	if err := r.replay(ctx); err != nil {
		return fmt.Errorf("replay after compaction: %w", err)
	}
	if err := r.holdsNewest(ctx, r.database, nil); err != nil {
		return fmt.Errorf("after a replay: %w", err)
	}
	return r.answersAreBuilt(ctx)
}

// answersAreBuilt checks that the answer of each account has its newest rows.
func (r *rig) answersAreBuilt(ctx context.Context) (err error) {
	conn, err := clickhouse.Open(ctx, clickhouse.Config{DSN: r.store.dsn(r.store.addr, r.database)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return poll(ctx, 4*waitTimeout, "answers have the newest rows", func() (bool, error) {
		differing, err := readmodel.DifferingAnswers(ctx, conn, readmodel.AnswersTable, math.MinInt64, math.MaxInt64)
		return err == nil && len(differing) == 0, nil
	})
}

// replay rebuilds the read models from the compacted topics.
func (r *rig) replay(ctx context.Context) (err error) {
	conn, err := clickhouse.Open(ctx, clickhouse.Config{DSN: r.store.dsn(r.store.addr, r.database)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	_, err = replay.Tables(ctx, replay.Config{Projector: project.Config{Kafka: r.kafka}},
		replay.Deps{Deps: project.Deps{Conn: conn, Logger: slog.New(slog.DiscardHandler)}})
	return err
}
