package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"

	"muster/ingest"
	"muster/platform/broker"
	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/record"
)

// Dates of the two crawls, and the share of people that changed between them.
const (
	firstCrawl  = "2026-09-01T12:00:00Z"
	secondCrawl = "2026-10-01T12:00:00Z"
	changedPart = 50 // one in 50
)

// brokerEnv is the environment variable that makes this program a broker, with its data in the given directory.
const brokerEnv = "MUSTER_BENCH_BROKER"

// serveBroker runs a broker until standard input is closed.
func serveBroker(ctx context.Context, dir string, out io.Writer) error {
	b, err := broker.Start(ctx, broker.Config{DataDir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, strings.Join(b.Addrs(), ","))
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, b.Close())
}

// startBroker starts a broker in a child process, so that its processor time is not counted.
func startBroker(ctx context.Context, dir string) (cfg bus.Config, stop func() error, err error) {
	broker, err := startSelf(ctx, brokerEnv, dir)
	if err != nil {
		return cfg, nil, fmt.Errorf("start the broker: %w", err)
	}
	cfg.Brokers = strings.Split(broker.address, ",")
	return cfg, broker.stop, nil
}

// child is this program in a child process, with another task.
type child struct {
	pid     int
	address string // the printed line
	stop    func() error
}

// startSelf starts this program with a task from an environment variable, and waits for its line.
func startSelf(ctx context.Context, variable, value string) (child, error) {
	self, err := os.Executable()
	if err != nil {
		return child{}, fmt.Errorf("find the executable: %w", err)
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), variable+"="+value)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return child{}, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return child{}, err
	}
	if err := cmd.Start(); err != nil {
		return child{}, err
	}
	c := child{pid: cmd.Process.Pid, stop: func() error { return errors.Join(stdin.Close(), cmd.Wait()) }}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return child{}, errors.Join(err, c.stop())
	}
	c.address = strings.TrimSpace(line)
	return c, nil
}

// crawl appends a person's record of about 1.6 KB, as in a crawl.
func crawl(b []byte, i int, at string, changed bool) []byte {
	const about = "Builds streaming systems and likes quiet mornings. "
	headline := "Engineer"
	if changed {
		headline = "Staff engineer"
	}
	b = fmt.Appendf(b,
		`{"profile_id":"p_%d","last_updated":"%s","username":"amara-okonkwo-%x","first_name":"Amara",`+
			`"last_name":"Okonkwo","full_name":"Amara Okonkwo","headline":"%s %d at Harmattan","summary":"%s",`,
		i, at, i*7919, headline, i, strings.Repeat(about, 6))
	b = append(b,
		`"location":{"city":"Lagos","country":"Nigeria","country_code":"NG","continent":"Africa"},"connections":500,`+
			`"followers":1200,`...)
	b = append(b,
		`"experience":[{"title":"Engineer","start":"2019-05","current":true,"company":{"name":"Harmattan",`+
			`"network_url":"https://network.example/company/harmattan","company_id":"c_1"}},{"title":"Developer",`+
			`"start":"2015","end":"2019-04","description":"Payments, ledgers and everything between them.",`+
			`"company":{"name":"Kora","company_id":"c_2"}},{"title":"Intern","start":"2014-06","end":"2014-09",`+
			`"company":{"name":"Tide","company_id":"c_3"}}],`...)
	b = append(b,
		`"education":[{"start":"2010","end":"2014","degrees":["bachelors"],"majors":["computer science"],`+
			`"school":{"name":"University of Nigeria","school_id":"s_1"}}],`...)
	b = append(b,
		`"certifications":[{"name":"Streams","issuer":"Kafka Guild","issue_date":"2020-02"}],`+
			`"languages":[{"language":"English","proficiency":"native"},{"language":"Igbo"}],`+
			`"skills":[{"skill":"go"},{"skill":"kafka"},{"skill":"sql"},{"skill":"rust"}],`...)
	return fmt.Appendf(b,
		`"social_accounts":["https://codehost.example/amara%d"],"emails":["amara%d@mail.example"],`+
			`"personal_email":"amara%d@mail.example"}`+"\n", i, i, i)
}

// writeCrawl writes a crawl of all people. In the second one, every changedPart-th person has changed.
func writeCrawl(path string, people int, at string) (size int64, err error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, fmt.Errorf("write a crawl: %w", err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	var line []byte
	for i := range people {
		line = crawl(line[:0], i, at, at == secondCrawl && i%changedPart == 0)
		size += int64(len(line))
		if _, err = w.Write(line); err != nil {
			break
		}
	}
	if err = errors.Join(err, w.Flush(), f.Close()); err != nil {
		return 0, fmt.Errorf("write a crawl: %w", err)
	}
	return size, nil
}

// cost is the processor time and the duration of a piece of work in this process.
type cost struct{ cpu, elapsed time.Duration }

func measured(do func() error) (cost, error) {
	runtime.GC()
	before, _, err := process(os.Getpid())
	if err != nil {
		return cost{}, err
	}
	began := time.Now()
	if err := do(); err != nil {
		return cost{}, err
	}
	elapsed := time.Since(began)
	after, _, err := process(os.Getpid())
	return cost{after - before, elapsed}, err
}

// measureRefresh compares a refresh with 2% changes with the minimum work: decoding and hashing the file, and
// writing the pairs of identity and version, and the changed records. Only the processor time of this process
// counts; the broker is another one.
func measureRefresh(ctx context.Context, o options, out io.Writer) (err error) {
	dir, err := os.MkdirTemp(o.dir, "refresh-")
	if err != nil {
		return fmt.Errorf("create the directory of the crawls: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	kafkaCfg, stop, err := startBroker(ctx, filepath.Join(dir, "kafka"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	first, second := filepath.Join(dir, "first.ndjson"), filepath.Join(dir, "second.ndjson")
	size, err := writeCrawl(first, o.people, firstCrawl)
	if err != nil {
		return err
	}
	if _, err = writeCrawl(second, o.people, secondCrawl); err != nil {
		return err
	}

	kind := record.KindNetworkPerson
	cfg := ingest.Config{Bus: kafkaCfg, StateDir: filepath.Join(dir, "ingest")}
	run := func(name, path string, want ingest.Counts) (cost, error) {
		var s ingest.Summary
		c, err := measured(func() (err error) {
			s, err = ingest.Files(ctx, cfg, ingest.Deps{}, kind, []string{path})
			return err
		})
		if err != nil {
			return c, err
		}
		if got := s.Total(); got != want {
			return c, fmt.Errorf("%s: counted %+v, want %+v", name, got, want)
		}
		_, rss, err := process(os.Getpid())
		fmt.Fprintf(out, "  %-34s %8.1f s  CPU %6.1f s  %9.0f records, %5.1f MB per CPU second  resident %d MB\n", name,
			c.elapsed.Seconds(), c.cpu.Seconds(), float64(o.people)/c.cpu.Seconds(),
			float64(size)/1e6/c.cpu.Seconds(), rss>>20)
		return c, err
	}
	n := int64(o.people)
	changed := (n + changedPart - 1) / changedPart
	if _, err := run("first crawl, file to topic", first, ingest.Counts{Read: n, Published: n}); err != nil {
		return err
	}
	refresh, err := run(
		"refresh, 2% changed", second, ingest.Counts{Read: n, Published: changed, VersionOnly: n - changed},
	)
	if err != nil {
		return err
	}
	if _, err := run("the same file again", second, ingest.Counts{Read: n, Unchanged: n}); err != nil {
		return err
	}
	decode, err := measured(func() error { return decodeAll(second) })
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  %-34s %8.1f s  CPU %6.1f s\n", "decode and hash the file", decode.elapsed.Seconds(),
		decode.cpu.Seconds())
	write, err := measured(func() error { return writePairs(ctx, kafkaCfg, o.people) })
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  %-34s %8.1f s  CPU %6.1f s\n", "write pairs and changed records", write.elapsed.Seconds(),
		write.cpu.Seconds())
	fmt.Fprintf(out, "  refresh / (decode + write) %.2f in CPU seconds (bar: 1.2)\n",
		refresh.cpu.Seconds()/(decode.cpu+write.cpu).Seconds())
	return nil
}

// decodeAll decodes and hashes every line of a file, concurrently as ingest does.
func decodeAll(path string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("decode a crawl: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	const chunk = 256 << 10
	chunks := make(chan []byte, runtime.NumCPU())
	failures := make([]error, runtime.NumCPU())
	var decoding sync.WaitGroup
	for i := range failures {
		decoding.Go(func() {
			for lines := range chunks {
				for line := range bytes.Lines(lines) {
					if _, err := record.Decode(record.KindNetworkPerson,
						bytes.TrimSuffix(line, []byte("\n"))); err != nil {
						failures[i] = err
					}
				}
			}
		})
	}
	r := bufio.NewReaderSize(f, chunk)
	for err == nil {
		buf := make([]byte, chunk, 2*chunk)
		var n int
		n, err = io.ReadFull(r, buf)
		buf = buf[:n]
		if err == nil {
			var rest []byte
			rest, err = r.ReadBytes('\n')
			buf = append(buf, rest...)
		}
		chunks <- buf
	}
	close(chunks)
	decoding.Wait()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return errors.Join(append(failures, err)...)
}

// writePairs writes what a refresh publishes, prepared as cheaply as possible: a share for each of 8 writers, with the
// usual headers.
func writePairs(ctx context.Context, cfg bus.Config, people int) (err error) {
	writer := bus.NewWriter(cfg)
	defer func() { err = errors.Join(err, writer.Close()) }()
	const lanes, group = 8, 2000
	failures := make([]error, lanes)
	var writing sync.WaitGroup
	for lane := range lanes {
		writing.Go(func() {
			var messages []kafka.Message
			for i := lane; i < people && failures[lane] == nil; i += lanes {
				m, err := refreshed(i)
				if err != nil {
					failures[lane] = err
					return
				}
				if messages = append(messages, m); len(messages) == group {
					failures[lane] = bus.WriteAll(ctx, writer, messages)
					messages = messages[:0]
				}
			}
			failures[lane] = errors.Join(failures[lane], bus.WriteAll(ctx, writer, messages))
		})
	}
	writing.Wait()
	return errors.Join(failures...)
}

// refreshed returns the message about a person that a refresh publishes.
func refreshed(i int) (kafka.Message, error) {
	id := fmt.Sprintf("p_%d", i)
	headers := []kafka.Header{
		{Key: bus.HeaderID, Value: []byte(id)}, {Key: "ce_line", Value: []byte(id)},
		{Key: "ce_run", Value: []byte("01234567-89ab-7def-8123-456789abcdef")},
		{Key: "ce_file", Value: []byte("/tmp/refresh/second.ndjson")},
		{Key: bus.HeaderSpecVersion, Value: []byte("1.0")}, {Key: bus.HeaderType, Value: []byte(event.TypeSeen)},
		{Key: bus.HeaderSource, Value: []byte("/ingest/01234567-89ab-7def-8123-456789abcdef/second.ndjson")},
		{Key: bus.HeaderTime, Value: []byte(secondCrawl)},
		{Key: bus.HeaderContentType, Value: []byte("application/json")},
	}
	if i%changedPart == 0 {
		return kafka.Message{
			Topic: record.KindNetworkPerson.Topic(), Key: []byte(id), Headers: headers,
			Value: bytes.TrimSuffix(crawl(nil, i, secondCrawl, true), []byte("\n")),
		}, nil
	}
	seen := event.VersionBump{Kind: record.KindNetworkPerson, Key: id, Version: secondCrawl,
		Hash: uint64(i) * 0x9e3779b97f4a7c15}
	value, err := json.Marshal(seen)
	return kafka.Message{
		Topic:   event.TopicVersionBump,
		Key:     []byte(seen.MessageKey()),
		Value:   value,
		Headers: headers,
	}, err
}
