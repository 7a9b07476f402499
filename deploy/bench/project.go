package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/segmentio/kafka-go"

	"muster/deploy/internal/status"
	"muster/platform/broker"
	"muster/platform/bus"
	"muster/platform/clickhouse"
	"muster/platform/engine"
	"muster/platform/service"
	"muster/projector"
	"muster/projector/migrations"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/sampledata"
)

// stage is a separate engine and a broker in this process, whose processor time is not counted.
type stage struct {
	bench   *bench
	dir     string
	broker  *broker.Broker
	engine  *engine.Process
	kafka   bus.Config
	dsn     string
	conn    driver.Conn
	writer  *bus.Writer
	running *exec.Cmd // the projector
}

func (b *bench) stage(ctx context.Context) (_ *stage, err error) {
	s := &stage{bench: b}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(ctx))
		}
	}()
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the bench's directory: %w", err)
	}
	if s.dir, err = os.MkdirTemp(b.dir, "project-"); err != nil {
		return nil, fmt.Errorf("create the stage's directory: %w", err)
	}
	if s.broker, err = broker.Start(ctx,
		broker.Config{DataDir: filepath.Join(s.dir, "kafka"), Logger: b.logger}); err != nil {
		return nil, err
	}
	s.kafka = bus.Config{Brokers: s.broker.Addrs()}
	var topics []bus.Topic
	for _, t := range event.Topics() {
		topics = append(topics, bus.Topic{Name: t.Name, Partitions: t.Partitions, Replication: 1, Config: t.Config()})
	}
	if err := bus.EnsureTopics(ctx, s.kafka, topics); err != nil {
		return nil, err
	}
	s.writer = bus.NewWriter(s.kafka)
	s.engine, err = engine.Start(context.WithoutCancel(ctx), engine.SupervisorConfig{
		Command: []string{b.muster, "engine", "child"}, Logger: b.logger,
		Server: engine.ServerConfig{Dir: filepath.Join(s.dir, "clickhouse"), Addr: "127.0.0.1:0", User: "muster",
			Password: "bench"},
	})
	if err != nil {
		return nil, err
	}
	s.dsn = s.engine.DSN("default")
	if s.conn, err = clickhouse.Open(ctx, clickhouse.Config{DSN: s.dsn, Logger: b.logger}); err != nil {
		return nil, err
	}
	_, err = migrations.Apply(ctx, s.conn, readmodel.Layout{}, clickhouse.MigrateConfig{Logger: b.logger})
	return s, err
}

func (s *stage) close(ctx context.Context) error {
	var errs []error
	if s.running != nil {
		_ = s.running.Process.Signal(syscall.SIGINT)
		errs = append(errs, s.running.Wait())
	}
	if s.conn != nil {
		errs = append(errs, s.conn.Close())
	}
	if s.engine != nil {
		errs = append(errs, s.engine.Stop(context.WithoutCancel(ctx)))
	}
	if s.writer != nil {
		errs = append(errs, s.writer.Close())
	}
	if s.broker != nil {
		errs = append(errs, s.broker.Close())
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

// recordSink collects the records of a data set as ingest publishes them: embedded repositories and commits by
// themselves. It drops records of complete lists, whose topic the Kafka engine does not read.
type recordSink struct {
	messages []kafka.Message
	bytes    int64
}

func (r *recordSink) Record(kind string, raw []byte) error {
	rec, err := record.Decode(record.Kind(kind), bytes.Clone(raw))
	if err != nil {
		return fmt.Errorf("decode a generated record: %w", err)
	}
	parts, _ := rec.SplitEmbedded() // generated lists are valid
	for _, rec := range append(parts, rec) {
		if rec.Kind == record.KindCodehostList {
			continue
		}
		r.messages = append(r.messages, kafka.Message{Topic: rec.Kind.Topic(), Key: []byte(rec.Key), Value: rec.JSON})
		r.bytes += int64(len(rec.JSON))
	}
	return nil
}

func (r *recordSink) Truth([]byte) error { return nil }

// publish writes messages in batches.
func (s *stage) publish(ctx context.Context, messages []kafka.Message) error {
	const piece = 2000
	for len(messages) > 0 {
		n := min(piece, len(messages))
		if err := bus.WriteAll(ctx, s.writer, messages[:n]); err != nil {
			return err
		}
		messages = messages[n:]
	}
	return nil
}

func (s *stage) source() status.Source {
	return status.Source{Kafka: s.kafka, Group: projector.Group, Topics: projector.Topics(),
		Others: status.AnswersConsumers()}
}

// project starts a projector, as in a container.
func (s *stage) project(ctx context.Context) error {
	log, err := os.Create(filepath.Join(s.dir, "projector.log"))
	if err != nil {
		return fmt.Errorf("open the projector's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	s.running = exec.CommandContext(ctx, s.bench.muster, "--data-dir", s.dir, "--log-level", "warn", "run", "projector",
		"--admin-addr", "127.0.0.1:0")
	s.running.Cancel = func() error { return s.running.Process.Signal(syscall.SIGINT) }
	s.running.WaitDelay = 10 * time.Second
	s.running.Stderr = log
	s.running.Env = append(os.Environ(), "KAFKA_BROKERS="+strings.Join(s.kafka.Brokers, ","),
		clickhouse.DSNEnv+"="+s.dsn,
		service.SecretEnv+"="+strings.Repeat("bench", 8))
	if err := s.running.Start(); err != nil {
		s.running = nil
		return fmt.Errorf("start %s (build it with `make build`): %w", s.bench.muster, err)
	}
	return nil
}

// spent returns the processor time of the engine, and of the projector while one runs.
func (s *stage) spent() (time.Duration, error) {
	total, _, err := process(s.engine.PID())
	if err != nil || s.running == nil {
		return total, err
	}
	mine, _, err := process(s.running.Process.Pid)
	return total + mine, err
}

// rate returns records per second of processor time, that is, per second and core.
func rate(records int, cpu time.Duration) float64 { return float64(records) / cpu.Seconds() }

// projection is a group of topics whose projection is measured by itself.
type projection struct {
	name   string
	topics []kafkaTopic
	people float64 // people of a data set, per record of these topics
	// tables are those that both the projector and the Kafka engine write, each with the identity of its rows.
	tables []identified
}

type identified struct{ table, identity string }

func projections() []projection {
	return []projection{
		{
			name: "network-person", topics: []kafkaTopic{networkPeopleTopic()}, people: 0.876,
			tables: []identified{
				{"lookups", "target"}, {"network_people", "profile_hash"}, {"search_people", "profile_hash"},
			},
		},
		{
			name:   "code-host",
			topics: []kafkaTopic{codehostPeopleTopic(), codehostReposTopic(), codehostCommitsTopic()},
			people: 0.23,
			tables: []identified{
				{"lookups", "target"}, {"codehost_people", "user_id"}, {"codehost_repos", "(user_id, repo_id)"},
				{"codehost_commits", "(user_id, sha)"},
			},
		},
	}
}

// measureProject compares the projector with ClickHouse's own means.
func measureProject(ctx context.Context, o options, out io.Writer) error {
	for _, p := range projections() {
		if err := measureProjection(ctx, o, p, out); err != nil {
			return fmt.Errorf("%s records: %w", p.name, err)
		}
	}
	return nil
}

func measureProjection(ctx context.Context, o options, p projection, out io.Writer) (err error) {
	b := newBench(o)
	s, err := b.stage(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	people := int(p.people * float64(min(50_000, max(1000, b.records/100))))
	world, err := sampledata.New(ctx, sampledata.Options{People: people, Seed: b.seed})
	if err != nil {
		return err
	}
	var kinds []string
	for _, t := range p.topics {
		kinds = append(kinds, string(t.kind))
	}
	records := &recordSink{}
	if err := world.WriteKinds(ctx, kinds, records); err != nil {
		return err
	}
	n := len(records.messages)
	if err := s.publish(ctx, records.messages); err != nil {
		return err
	}
	records.messages = nil
	fmt.Fprintf(out,
		"  %d %s records of %d bytes on average, from topic to visible row; CPU of muster and engine\n", n, p.name,
		records.bytes/int64(n))

	began, err := s.engineTime()
	if err != nil {
		return err
	}
	took, cpu, err := s.timed(func() error {
		if err := s.project(ctx); err != nil {
			return err
		}
		return status.Wait(ctx, s.source(), nil)
	})
	if err != nil {
		return err
	}
	ended, err := s.engineTime()
	if err != nil {
		return err
	}
	ours := rate(n, cpu)
	show := func(what string, took, cpu time.Duration) {
		fmt.Fprintf(out, "  %-44s %7.0f records/s/core  %7.0f records/s  CPU s %.2f\n", what, rate(n, cpu),
			float64(n)/took.Seconds(), cpu.Seconds())
	}
	show("projector", took, cpu)
	fmt.Fprintf(out, "    of its CPU: engine %.0f%%, muster %.0f%%\n", 100*(ended-began).Seconds()/cpu.Seconds(),
		100*(cpu-ended+began).Seconds()/cpu.Seconds())
	if err := s.interrupt(); err != nil {
		return err
	}
	if err := s.rows(ctx, out, "projector", "", p.tables); err != nil {
		return err
	}
	if took, cpu, err = s.kafkaEngine(ctx, p, n); err != nil {
		return err
	}
	show("Kafka engine and materialized views", took, cpu)
	if err := s.rows(ctx, out, "Kafka engine", "bench_", p.tables); err != nil {
		return err
	}
	fmt.Fprintf(out, "  ratio: %.2f of the Kafka engine with materialized views\n", ours/rate(n, cpu))
	if took, cpu, err = s.jsonEachRow(ctx, p.tables); err != nil {
		return err
	}
	show("INSERT ... FORMAT JSONEachRow of the rows", took, cpu)
	fmt.Fprintf(out, "  ratio: %.2f of INSERT ... FORMAT JSONEachRow of the same rows\n", ours/rate(n, cpu))
	return nil
}

func (s *stage) engineTime() (time.Duration, error) {
	used, _, err := process(s.engine.PID())
	return used, err
}

// rows prints the number of rows in tables, the basis of the comparison.
func (s *stage) rows(ctx context.Context, out io.Writer, who, prefix string, tables []identified) error {
	fmt.Fprintf(out, "    rows of the %s:", who)
	for _, t := range tables {
		var n uint64
		if err := s.conn.QueryRow(ctx, "SELECT count() FROM "+prefix+t.table+" FINAL").Scan(&n); err != nil {
			return fmt.Errorf("count the rows of %s: %w", prefix+t.table, err)
		}
		fmt.Fprintf(out, " %s%s %d", prefix, t.table, n)
	}
	fmt.Fprintln(out)
	return nil
}

// interrupt stops the projector.
func (s *stage) interrupt() error {
	running := s.running
	s.running = nil
	_ = running.Process.Signal(syscall.SIGINT)
	if err := running.Wait(); err != nil {
		return fmt.Errorf("stop the projector: %w", err)
	}
	return nil
}

// timed returns the duration of do, and its processor time.
func (s *stage) timed(do func() error) (took, cpu time.Duration, err error) {
	before, err := s.spent()
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := do(); err != nil {
		return 0, 0, err
	}
	took = time.Since(began)
	after, err := s.spent()
	return took, after - before, err
}

// kafkaEngineTimeout is the time without inserts after which the Kafka engine counts as stuck.
const kafkaEngineTimeout = 45 * time.Second

// kafkaErrors returns the errors of the Kafka engine.
func (s *stage) kafkaErrors(ctx context.Context) string {
	var text string
	err := s.conn.QueryRow(ctx, `SELECT concat(toString(count()), ' consumers, ', toString(sum(num_messages_read)),
	    ' messages read, ', toString(any(assignments.topic)), ' ',
    arrayStringConcat(arraySlice(arrayFlatten(groupArray(arrayMap(x -> substring(x, 1, 600), exceptions.text))),
    -3), '; ')) FROM system.kafka_consumers`).Scan(&text)
	if err != nil {
		return err.Error()
	}
	return text
}

// kafkaEngine measures ClickHouse consuming the topics itself.
func (s *stage) kafkaEngine(ctx context.Context, p projection, n int) (took, cpu time.Duration, err error) {
	prepare, start, stop := kafkaEngine(strings.Join(s.kafka.Brokers, ","), p)
	if err := s.exec(ctx, prepare...); err != nil {
		return 0, 0, err
	}
	want, err := s.identities(ctx, "", p.tables)
	if err != nil {
		return 0, 0, err
	}
	took, cpu, err = s.timed(func() error {
		if err := s.exec(ctx, start...); err != nil {
			return err
		}
		var before uint64
		var have []uint64
		for since := time.Now(); ; {
			var read uint64
			err := s.conn.QueryRow(ctx, "SELECT sum(num_messages_read) FROM system.kafka_consumers").Scan(&read)
			if err != nil {
				return fmt.Errorf("count the messages that were read: %w", err)
			}
			if read >= uint64(n) { // Counting rows takes the engine's processor time.
				if have, err = s.identities(ctx, "bench_", p.tables); err != nil || slices.Equal(have, want) {
					return err
				}
			}
			if read != before {
				before, since = read, time.Now()
			}
			if time.Since(since) > kafkaEngineTimeout {
				return fmt.Errorf("the views stopped at %d identities of %d in %v: %s", have, want, p.tables,
					s.kafkaErrors(ctx))
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("wait for the views: %w", context.Cause(ctx))
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	return took, cpu, errors.Join(err, s.exec(context.WithoutCancel(ctx), stop...))
}

// identities counts the identities in tables. Repeated records replace each other already in an insert, so rows are not
// counted.
func (s *stage) identities(ctx context.Context, prefix string, tables []identified) ([]uint64, error) {
	counts := make([]uint64, len(tables))
	for i, t := range tables {
		query := "SELECT uniqExact(" + t.identity + ") FROM " + prefix + t.table
		if err := s.conn.QueryRow(ctx, query).Scan(&counts[i]); err != nil {
			return nil, fmt.Errorf("count the identities of %s: %w", prefix+t.table, err)
		}
	}
	return counts, nil
}

func (s *stage) exec(ctx context.Context, statements ...string) error {
	for _, q := range statements {
		if err := s.conn.Exec(ctx, q); err != nil {
			first, _, _ := strings.Cut(q, "(")
			return fmt.Errorf("%s: %w", first, err)
		}
	}
	return nil
}

// jsonEachRow inserts the projector's rows as JSON, in batches of the same number of records.
func (s *stage) jsonEachRow(ctx context.Context, tables []identified) (took, cpu time.Duration, err error) {
	for _, written := range tables {
		table := written.table
		columns, err := s.bench.columns(ctx, s.conn, table)
		if err != nil {
			return 0, 0, err
		}
		if err := s.exec(ctx, "CREATE TABLE bench_json_"+table+" AS "+table); err != nil {
			return 0, 0, err
		}
		dump, err := os.CreateTemp(s.dir, "rows-")
		if err != nil {
			return 0, 0, fmt.Errorf("create a file for the rows: %w", err)
		}
		list := "`" + strings.Join(columns, "`, `") + "`"
		if err := s.post(ctx, "SELECT "+list+" FROM "+table+" FORMAT JSONEachRow", nil, dump); err != nil {
			return 0, 0, errors.Join(err, dump.Close())
		}
		t, c, err := s.timed(func() error {
			return s.insertLines(ctx, "INSERT INTO bench_json_"+table+" ("+list+") FORMAT JSONEachRow", dump)
		})
		if err := errors.Join(err, dump.Close()); err != nil {
			return 0, 0, err
		}
		took, cpu = took+t, cpu+c
	}
	return took, cpu, nil
}

// insertLines inserts a file of rows in pieces of about 32 MiB, of whole lines.
func (s *stage) insertLines(ctx context.Context, query string, file *os.File) error {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read the rows: %w", err)
	}
	buf := make([]byte, 32<<20)
	held := 0
	for {
		n, err := io.ReadFull(file, buf[held:])
		held += n
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return fmt.Errorf("read the rows: %w", err)
		}
		end := bytes.LastIndexByte(buf[:held], '\n') + 1
		if end > 0 {
			if err := s.post(ctx, query, buf[:end], io.Discard); err != nil {
				return err
			}
		}
		held = copy(buf, buf[end:held])
		if last {
			return nil
		}
	}
}

// post sends a statement with its data through the ClickHouse HTTP interface.
func (s *stage) post(ctx context.Context, query string, body []byte, into io.Writer) error {
	target := "http://" + s.engine.Addr() + "/?" + url.Values{"query": {query}, "async_insert": {"0"}}.Encode()
	//nolint:gosec // the engine of this program
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("query the engine: %w", err)
	}
	req.SetBasicAuth("muster", "bench")
	resp, err := http.DefaultClient.Do(req) //nolint:gosec // as above
	if err != nil {
		return fmt.Errorf("query the engine: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return fmt.Errorf("query the engine: %s: %s", resp.Status, text)
	}
	_, err = io.Copy(into, resp.Body)
	return err
}

func (b *bench) columns(ctx context.Context, conn driver.Conn, table string) (names []string, err error) {
	rows, err := conn.Query(ctx, readmodel.Rebuild{Model: readmodel.Model{Table: table}}.ColumnsQuery())
	if err != nil {
		return nil, fmt.Errorf("read the columns of %s: %w", table, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, fmt.Errorf("read the columns of %s: %w", table, err)
		}
		names = append(names, name)
	}
	return names, rows.Err()
}
