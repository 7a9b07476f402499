package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/deploy/internal/instance"
	"muster/deploy/internal/status"
	"muster/ingest"
	"muster/platform/bus"
	"muster/platform/clickhouse"
	"muster/projector"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/sampledata"
)

// bench is a running platform with loaded data.
type bench struct {
	options
	data    string
	process *exec.Cmd
	ended   chan error
	started time.Duration
	in      instance.Instance
	kafka   bus.Config
	conn    driver.Conn
	logger  *slog.Logger
	env     []string // of muster up, in addition to this program's
	// warm is the minimum warm-up before a measurement.
	warm time.Duration
	// every is the average interval of a caller's requests, at random times; 0 sends the next one on completion.
	every time.Duration
	// draw is the random seed of keys and times.
	draw uint64
}

func newBench(o options) *bench {
	name := fmt.Sprintf("%d-%d", o.people, o.seed)
	if load, err := directLoadFor(o.parts); o.direct && err == nil {
		name += "-" + load.name
	}
	return &bench{
		options: o,
		data:    filepath.Join(o.dir, name),
		logger:  slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
}

// open starts the platform on the data directory and loads the data unless an earlier run has.
func open(ctx context.Context, o options, out io.Writer) (_ *bench, err error) {
	b := newBench(o)
	if err := os.MkdirAll(b.data, 0o700); err != nil {
		return nil, fmt.Errorf("create the data directory: %w", err)
	}
	if err := b.up(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if err := b.connect(ctx); err != nil {
		return nil, err
	}
	load := b.load
	if o.direct {
		load = b.loadDirect
	}
	if err := load(ctx, out); err != nil {
		return nil, err
	}
	counts, err := readmodel.Counts(ctx, b.conn)
	if err != nil {
		return nil, err
	}
	for _, c := range counts {
		fmt.Fprintf(out, "  %-18s %10d rows %8.1f MB %3d parts\n", c.Table, c.Rows, float64(c.Bytes)/1e6, c.Parts)
	}
	return b, nil
}

// connect connects to the engine.
func (b *bench) connect(ctx context.Context) (err error) {
	b.conn, err = clickhouse.Open(ctx, clickhouse.Config{DSN: b.in.ClickHouseURL, MaxOpenConns: 64, Logger: b.logger})
	return err
}

// up starts `muster up` and waits for its startup summary.
func (b *bench) up(ctx context.Context) error {
	logFile, err := os.Create(filepath.Join(b.data, "bench.log"))
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	defer func() { _ = logFile.Close() }()
	const free = "127.0.0.1:0"
	b.process = exec.CommandContext(ctx, b.muster, "up", "--data-dir", b.data, "--no-sample",
		"--api-addr", free, "--ingest-addr", free, "--admin-addr", free, "--clickhouse-addr", free,
		"--kafka-addr", free)
	b.process.Env = append(os.Environ(), b.env...)
	b.process.Cancel = func() error { return b.process.Process.Signal(syscall.SIGINT) }
	b.process.WaitDelay = 10 * time.Second
	b.process.Stderr = logFile
	stdout, err := b.process.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start %s: %w", b.muster, err)
	}
	began := time.Now()
	if err := b.process.Start(); err != nil {
		return fmt.Errorf("start %s (build it with `make build`): %w", b.muster, err)
	}
	b.ended = make(chan error, 1)
	hello := make(chan struct{})
	go func() {
		var text strings.Builder
		buf := make([]byte, 4096)
		for said := false; ; {
			n, err := stdout.Read(buf)
			if text.Write(buf[:n]); !said && strings.Contains(text.String(), "Try:") {
				said = true
				close(hello)
			}
			if err != nil {
				break
			}
		}
		b.ended <- b.process.Wait()
	}()
	select {
	case <-hello:
	case err := <-b.ended:
		return fmt.Errorf("muster up exited (its log is %s): %w", logFile.Name(), err)
	}
	b.started = time.Since(began)
	if b.in, err = instance.Read(b.data); err != nil {
		return err
	}
	b.kafka, err = b.in.Bus(bus.Config{})
	return err
}

func (b *bench) close() error {
	var err error
	if b.conn != nil {
		err = b.conn.Close()
	}
	if b.process != nil && b.process.Process != nil {
		_ = b.process.Process.Signal(syscall.SIGINT)
		if waitErr := <-b.ended; waitErr != nil {
			err = errors.Join(err, fmt.Errorf("stop muster: %w", waitErr))
		}
	}
	return err
}

func (b *bench) source() status.Source {
	return status.Source{Kafka: b.kafka, Group: projector.Group, Topics: projector.Topics(),
		Others: status.AnswersConsumers()}
}

// world returns the options of the data set.
func (b *bench) world() sampledata.Options {
	return sampledata.Options{
		People:       b.people,
		Seed:         b.seed,
		AccountLinks: 5 * b.people,
		JoinedLinks:  b.people * 8 / 10,
	}
}

// load publishes the data through Kafka, like any records. An interrupted run continues with the missing kinds.
func (b *bench) load(ctx context.Context, out io.Writer) error {
	done := filepath.Join(b.data, "world-loaded")
	if exists(done) {
		return status.Wait(ctx, b.source(), nil)
	}
	files := filepath.Join(b.data, "world")
	began := time.Now()
	if !exists(filepath.Join(files, sampledata.TruthFile)) {
		summary, err := sampledata.WriteFiles(ctx, files, b.world(), nil)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "  data written: %.0f MB in %.0f s\n", float64(summary.Bytes)/1e6, time.Since(began).Seconds())
	}
	began = time.Now()
	var total ingest.Counts
	for _, kind := range sampledata.Kinds() {
		published := filepath.Join(files, kind+".published")
		if exists(published) {
			continue
		}
		run, err := ingest.Files(ctx, ingest.Config{Bus: b.kafka}, ingest.Deps{Logger: b.logger},
			record.Kind(kind), []string{filepath.Join(files, sampledata.FileName(kind))})
		if err != nil {
			return fmt.Errorf("load %s: %w", kind, err)
		}
		counts := run.Total()
		total.Published += counts.Published
		fmt.Fprintf(out, "  %-18s %10d published in %.0f s\n", kind, counts.Published, run.Elapsed.Seconds())
		if err := os.WriteFile(published, nil, 0o600); err != nil {
			return fmt.Errorf("write the progress: %w", err)
		}
	}
	if err := status.Wait(ctx, b.source(), nil); err != nil {
		return err
	}
	fmt.Fprintf(out, "  all %d records published and visible in %.0f s\n", total.Published, time.Since(began).Seconds())
	if err := os.RemoveAll(files); err != nil {
		return fmt.Errorf("remove the data files: %w", err)
	}
	return os.WriteFile(done, nil, 0o600)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// strings reads a column of strings.
func (b *bench) strings(ctx context.Context, query string) (list []string, err error) {
	rows, err := b.conn.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, rows.Err()
}
