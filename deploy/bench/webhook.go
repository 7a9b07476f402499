package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"golang.org/x/sync/errgroup"

	"muster/platform/bus"
	"muster/schemas/event"
	webhook "muster/webhook-sender"
)

// Parameters of part webhook.
const (
	webhookEndpoints = 100
	webhookRuns      = 5                     // alternating, with and without a dead endpoint
	webhookFull      = 12000                 // measured deliveries at full speed
	webhookPaced     = 5 * time.Second       // duration of a run at a fixed rate
	webhookTick      = 20 * time.Millisecond // its send interval
	webhookShare     = 0.3                   // its share of the full speed
	webhookTimeout   = 15 * time.Second
	webhookCallers   = 64 // of the bare loop
)

// measureWebhook prints the deliveries per second of the webhook sender to receivers on this machine, compared with
// a bare loop of signed posts, and the latency of deliveries to 99 endpoints while the hundredth responds, and
// while it accepts connections without responding.
func measureWebhook(ctx context.Context, _ options, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "muster-bench-webhook-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cfg, stop, err := startBroker(ctx, filepath.Join(dir, "kafka"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	w := &webhookBench{bus: cfg, key: make([]byte, event.WebhookKeySize), sent: map[string]time.Time{}}
	if err := w.open(ctx); err != nil {
		return err
	}
	var full float64
	return errors.Join(
		// The same concurrency as in the bare loop: one host may use half of it.
		w.with(ctx, 2*webhookCallers/partitionsOf(event.TopicWebhookTask), func() (err error) {
			full, err = w.compare(ctx, out)
			return err
		}),
		w.with(ctx, 0, func() error { return w.withDeadEndpoint(ctx, out, full) }),
		w.close(ctx))
}

// partitionsOf returns the number of partitions of a topic.
func partitionsOf(name string) int {
	for _, t := range event.Topics() {
		if t.Name == name {
			return t.Partitions
		}
	}
	return 1
}

// with runs measure with a sender and its limit of concurrent calls per partition; 0 means the default.
func (w *webhookBench) with(ctx context.Context, calls int, measure func() error) error {
	sender, err := webhook.New(webhook.Config{
		Bus: w.bus, Key: w.key, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Timeout: webhookTimeout,
		PerPartition: calls,
	}, webhook.Deps{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(ctx)
	var group errgroup.Group
	group.Go(func() error { return sender.Run(running) })
	measured := measure()
	cancel()
	return errors.Join(measured, group.Wait())
}

// webhookBench has the receivers, and the times of their deliveries.
type webhookBench struct {
	bus     bus.Config
	key     []byte
	alive   *http.Server
	url     string
	dead    net.Listener
	serving errgroup.Group

	mu    sync.Mutex
	sent  map[string]time.Time
	took  []time.Duration
	left  int
	empty chan struct{}
	run   int
}

func (w *webhookBench) open(ctx context.Context) error {
	var topics []bus.Topic
	for _, d := range append(event.Topics(), webhook.DeadLetterTopic()) {
		topics = append(topics, bus.Topic{Name: d.Name, Partitions: d.Partitions, Config: d.Config()})
	}
	if err := bus.EnsureTopics(ctx, w.bus, topics); err != nil {
		return err
	}
	secrets, err := webhook.OpenSecrets(ctx, webhook.SecretsConfig{Bus: w.bus, Key: w.key})
	if err != nil {
		return err
	}
	_, err = secrets.Create(ctx, "bench")
	if err := errors.Join(err, secrets.Close()); err != nil {
		return err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	w.url = "http://" + l.Addr().String()
	w.alive = &http.Server{Handler: http.HandlerFunc(w.receive), ReadHeaderTimeout: time.Minute}
	w.serving.Go(func() error {
		if err := w.alive.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	// The kernel accepts connections to it, which are never read.
	w.dead, err = lc.Listen(ctx, "tcp", "127.0.0.1:0")
	return err
}

func (w *webhookBench) close(ctx context.Context) error {
	return errors.Join(w.alive.Shutdown(ctx), w.serving.Wait(), w.dead.Close())
}

// receive handles a delivery.
func (w *webhookBench) receive(rw http.ResponseWriter, r *http.Request) {
	now := time.Now()
	_, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		return
	}
	rw.WriteHeader(http.StatusNoContent)
	id := r.Header.Get("webhook-id")
	w.mu.Lock()
	defer w.mu.Unlock()
	at, ok := w.sent[id]
	if !ok {
		return
	}
	delete(w.sent, id)
	w.took = append(w.took, now.Sub(at))
	if w.left--; w.left == 0 {
		close(w.empty)
	}
}

// send writes tasks. With dead, those to the first endpoint go to the dead one, and are not waited for.
func (w *webhookBench) send(ctx context.Context, writer *bus.Writer, from, n int, dead bool) error {
	messages := make([]kafka.Message, 0, n)
	body := []byte(`{"full_name": "` + strings.Repeat("x", 800) + `"}`)
	now := time.Now()
	w.mu.Lock()
	for i := from; i < from+n; i++ {
		id := "run-" + strconv.Itoa(w.run) + "-" + strconv.Itoa(i)
		url := w.url + "/" + strconv.Itoa(i%webhookEndpoints)
		if i%webhookEndpoints > 0 {
			w.sent[id] = now
		} else if dead {
			url = "http://" + w.dead.Addr().String() + "/"
		}
		m, err := webhook.Task(ctx,
			&event.WebhookTask{DeliveryID: id, OrganizationID: "bench", URL: url, RequestID: id, CreatedAt: now,
				Body: body})
		if err != nil {
			w.mu.Unlock()
			return err
		}
		messages = append(messages, m)
	}
	w.mu.Unlock()
	return bus.WriteAll(ctx, writer, messages)
}

// begin starts a run of n deliveries.
func (w *webhookBench) begin(n int) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.run++
	clear(w.sent)
	w.took, w.left, w.empty = nil, n-(n+webhookEndpoints-1)/webhookEndpoints, make(chan struct{})
	return w.empty
}

// await waits for a run's deliveries and returns their sorted durations.
func (w *webhookBench) await(ctx context.Context, done <-chan struct{}) ([]time.Duration, error) {
	select {
	case <-done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.took)
	return w.took, nil
}

// compare measures the full speed and that of the bare loop, alternating, and uses the median of each.
func (w *webhookBench) compare(ctx context.Context, out io.Writer) (full float64, err error) {
	writer := bus.NewWriter(w.bus)
	defer func() { err = errors.Join(err, writer.Close()) }()
	// Per second and core: the processor time of this program, which includes the receivers on both sides, and with
	// the sender the writing of the tasks.
	var fulls, bares, cores, bareCores []float64
	for i := range 1 + webhookRuns { // the first one warms up
		full, err := measured(func() error {
			done := w.begin(webhookFull)
			if err := w.send(ctx, writer, 0, webhookFull, false); err != nil {
				return err
			}
			_, err := w.await(ctx, done)
			return err
		})
		if err != nil {
			return 0, err
		}
		bare, err := measured(func() error { return w.bare(ctx) })
		if err != nil {
			return 0, err
		}
		if i > 0 {
			fulls, bares = append(fulls, webhookFull/full.elapsed.Seconds()),
				append(bares, webhookFull/bare.elapsed.Seconds())
			cores, bareCores = append(cores, webhookFull/full.cpu.Seconds()),
				append(bareCores, webhookFull/bare.cpu.Seconds())
		}
	}
	for _, runs := range [][]float64{fulls, bares, cores, bareCores} {
		slices.Sort(runs)
	}
	const middle = webhookRuns / 2
	fmt.Fprintf(out,
		"  %d deliveries of 0.8 KB to %d endpoints: %6.0f per second and core; bare loop of signed posts, %d "+
			"callers: %6.0f; ratio %.2f (bar 0.5)\n",
		webhookFull, webhookEndpoints, cores[middle], webhookCallers, bareCores[middle],
		cores[middle]/bareCores[middle])
	fmt.Fprintf(out, "  on the whole machine, including writing the tasks: %.0f and %.0f per second; ratio %.2f\n",
		fulls[middle], bares[middle], fulls[middle]/bares[middle])
	return fulls[middle], nil
}

// withDeadEndpoint measures the latency of deliveries at a share of the full speed, with and without a dead endpoint.
func (w *webhookBench) withDeadEndpoint(ctx context.Context, out io.Writer, full float64) (err error) {
	if full == 0 {
		return nil // the full speed was not measured
	}
	writer := bus.NewWriter(w.bus)
	defer func() { err = errors.Join(err, writer.Close()) }()
	perTick := max(1, int(full*webhookShare*webhookTick.Seconds()))
	n := perTick * int(webhookPaced/webhookTick)
	var p99 [2][]time.Duration
	for range webhookRuns {
		for mode := range p99 {
			took, err := w.atFixedRate(ctx, writer, n, perTick, mode == 1)
			if err != nil {
				return err
			}
			p99[mode] = append(p99[mode], quantile(took, 0.99))
			fmt.Fprintf(out, "    %d per second, %s: p50 %6.1f ms  p99 %6.1f ms\n",
				int(float64(perTick)/webhookTick.Seconds()),
				[]string{"all endpoints respond", "one of 100 does not "}[mode], ms(quantile(took, 0.5)),
				ms(quantile(took, 0.99)))
		}
	}
	for mode := range p99 {
		slices.Sort(p99[mode])
	}
	well, beside := p99[0][webhookRuns/2], p99[1][webhookRuns/2]
	fmt.Fprintf(out,
		"  median p99 of the others: %.1f ms, with a dead endpoint %.1f ms: %.2f times, %+.1f ms (bar 1.5 times or "+
			"20 ms)\n",
		ms(well), ms(beside), float64(beside)/float64(well), ms(beside-well))
	return nil
}

// atFixedRate sends n deliveries at a fixed rate.
func (w *webhookBench) atFixedRate(ctx context.Context, writer *bus.Writer, n, perTick int,
	dead bool) ([]time.Duration, error) {
	done := w.begin(n)
	tick := time.NewTicker(webhookTick)
	defer tick.Stop()
	for from := 0; from < n; from += perTick {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if err := w.send(ctx, writer, from, perTick, dead); err != nil {
			return nil, err
		}
	}
	return w.await(ctx, done)
}

// bare is a loop that signs and posts, without topics, retries and attempt logs.
func (w *webhookBench) bare(ctx context.Context) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: webhookCallers}}
	defer client.CloseIdleConnections()
	body := []byte(`{"full_name": "` + strings.Repeat("x", 800) + `"}`)
	group, ctx := errgroup.WithContext(ctx)
	for c := range webhookCallers {
		group.Go(func() error {
			for i := c; i < webhookFull; i += webhookCallers {
				id, at := "bare-"+strconv.Itoa(i), strconv.FormatInt(time.Now().Unix(), 10)
				mac := hmac.New(sha256.New, w.key)
				mac.Write([]byte(id + "." + at + "."))
				mac.Write(body)
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/"+strconv.Itoa(i%webhookEndpoints),
					bytes.NewReader(body))
				if err != nil {
					return err
				}
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("Webhook-Id", id)
				req.Header.Set("Webhook-Timestamp", at)
				req.Header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
				resp, err := client.Do(req)
				if err != nil {
					return err
				}
				_, err = io.Copy(io.Discard, resp.Body)
				if err := errors.Join(err, resp.Body.Close()); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}
