package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// An outage is longer than the clients' first retries, and short enough for 20 seeds. waitTimeout is the maximum time
// until a fault happens.
const (
	outage      = 2500 * time.Millisecond
	waitTimeout = 40 * time.Second
)

var errDidNotHappen = errors.New("the fault did not happen")

// runWithFault feeds a piece while a fault happens. It returns when the fault is over and the piece is acknowledged.
func (r *rig) runWithFault(ctx context.Context, f fault, piece int) error {
	feed := func() error { return r.feed(ctx, piece) }
	switch f {
	case killIngestBefore:
		return r.killIngest(feed, 1, false)
	case killIngestAfter:
		return r.killIngest(feed, 1, true)
	case killIngestMid:
		return r.killIngest(feed, 3, true)
	case killProjectorBefore:
		return r.atInsert(ctx, feed, beforeInsert, r.killProjectors)
	case killProjectorMid:
		return r.atInsert(ctx, feed, middleOfInsert, r.killProjectors)
	case killProjectorAfter:
		return r.atInsert(ctx, feed, afterInsert, r.killProjectors)
	case killEngineBefore:
		return r.atInsert(ctx, feed, beforeInsert, r.store.process.kill)
	case killEngineMid:
		return r.atInsert(ctx, feed, middleOfInsert, r.store.process.kill)
	case killEngineAfter:
		return r.atInsert(ctx, feed, afterInsert, r.store.process.kill)
	case storeSilent:
		return r.atInsert(ctx, feed, afterInsert, func() {})
	case brokerAway:
		return concurrently(feed, func() error { return r.takeDown(ctx, r.proxy, outage) })
	case storeRefuses:
		return concurrently(feed, func() error { return r.takeDown(ctx, r.store.proxy, outage) })
	case brokerSilent:
		return r.silentBroker(ctx, feed)
	case brokerErrors, brokerKilled:
		return r.server.injectFault(ctx, feed)
	case storeSlow:
		return r.slowStore(ctx, feed)
	case storeFull:
		return r.fullStore(ctx, feed)
	case rebalances:
		return concurrently(feed, func() error { return r.rebalance(ctx) })
	case outsideProducer:
		return concurrently(feed, func() error { return r.produceOutside(ctx) })
	}
	return fmt.Errorf("unknown fault %q", f)
}

// concurrently runs feed and happen concurrently.
func concurrently(feed, happen func() error) error {
	done := make(chan error, 1)
	go func() { done <- feed() }()
	return errors.Join(happen(), <-done)
}

// killIngest kills the ingest run at its nth append request, which is applied or not, and gets no response.
func (r *rig) killIngest(feed func() error, nth int64, applied bool) error {
	var seen, killed atomic.Int64
	remove := r.server.onAppend(applied, func() bool {
		pid := r.ingestPID()
		if pid == 0 || seen.Add(1) < nth || killed.Load() > 0 {
			return false
		}
		killed.Add(1)
		_ = syscall.Kill(pid, syscall.SIGKILL) // the process may have exited; that is detected below
		return true
	})
	defer remove()
	before := r.runsSoFar()
	if err := feed(); err != nil {
		return err
	}
	if killed.Load() == 0 || r.runsSoFar() < before+2 {
		return fmt.Errorf("%w: %d append requests, the run was not killed", errDidNotHappen, seen.Load())
	}
	return nil
}

func (r *rig) runsSoFar() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runs
}

// holdsRecords reports whether ingest writes to a topic.
func holdsRecords(topic string) bool {
	return strings.HasPrefix(topic, "muster.record.") && !strings.HasPrefix(topic, "muster.record.rejected")
}

// atInsert runs action at a stage of the next insert.
func (r *rig) atInsert(ctx context.Context, feed func() error, at stage, action func()) error {
	fired := r.store.gateway.arm(at, action)
	if err := feed(); err != nil {
		return err
	}
	select {
	case <-fired:
		return nil
	case <-time.After(waitTimeout):
		return fmt.Errorf("%w: no insert within %s", errDidNotHappen, waitTimeout)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// takeDown stops a proxy for a time.
func (r *rig) takeDown(ctx context.Context, proxy *toxiproxy.Proxy, length time.Duration) error {
	wait(ctx, 200*time.Millisecond) // until the pipeline is busy
	proxy.Stop()
	wait(ctx, length)
	return proxy.Start() // on the same address
}

// silentBroker forwards requests and drops all responses, starting with an append request: earlier, clients would not
// get to send one.
func (r *rig) silentBroker(ctx context.Context, feed func() error) error {
	var appends atomic.Int64
	silence := make(chan error, 1)
	remove := r.server.onAppend(true, func() bool {
		if appends.Add(1) == 1 { // mute the proxy before the broker responds
			_, err := r.proxy.Toxics.AddToxicJson(strings.NewReader(
				`{"name":"silent","type":"timeout","stream":"downstream","toxicity":1,"attributes":{"timeout":1200}}`))
			silence <- err
		}
		return false
	})
	defer remove()
	err := concurrently(feed, func() error {
		select {
		case err := <-silence:
			if err != nil {
				return err
			}
		case <-time.After(waitTimeout):
			return fmt.Errorf("%w: no append request within %s", errDidNotHappen, waitTimeout)
		}
		wait(ctx, outage)
		return r.proxy.Toxics.RemoveToxic(ctx, "silent")
	})
	if err == nil && appends.Load() < 2 {
		return fmt.Errorf("%w: records were appended without a response, but not retried", errDidNotHappen)
	}
	return err
}

func (r *rig) slowStore(ctx context.Context, feed func() error) error {
	_, err := r.store.proxy.Toxics.AddToxicJson(strings.NewReader(
		`{"name":"slow","type":"latency","stream":"downstream","toxicity":1,"attributes":{"latency":600,"jitter":300}}`))
	if err != nil {
		return err
	}
	return concurrently(feed, func() error {
		wait(ctx, outage)
		return r.store.proxy.Toxics.RemoveToxic(ctx, "slow")
	})
}

// fullStore makes inserts fail as on a full disk.
func (r *rig) fullStore(ctx context.Context, feed func() error) error {
	set := func(change string) error {
		for _, table := range readmodel.Tables() {
			if err := r.store.admin.Exec(ctx,
				"ALTER TABLE "+r.database+"."+table+" "+change+" SETTING min_free_disk_bytes_to_perform_insert"+
					map[bool]string{true: " = 1000000000000000"}[change == "MODIFY"]); err != nil {
				return err
			}
		}
		return nil
	}
	if err := set("MODIFY"); err != nil {
		return err
	}
	err := feed()
	if err == nil {
		// Records are acknowledged, but not visible: there is lag until the fault ends.
		err = r.drained(ctx, projectorGroup, time.Second)
		if err == nil {
			err = fmt.Errorf("%w: inserts succeeded", errDidNotHappen)
		} else {
			err = nil
		}
	}
	return errors.Join(err, set("RESET"))
}

// rebalance starts and stops three projectors.
func (r *rig) rebalance(ctx context.Context) error {
	for range 2 {
		r.startProjector(ctx)
	}
	for i := range 6 {
		if !wait(ctx, 700*time.Millisecond) {
			return context.Cause(ctx)
		}
		if i%2 == 0 {
			r.projectors[i%len(r.projectors)].kill() // detected by the session timeout
			continue
		}
		last := len(r.projectors) - 1
		if err := r.stopProjectors(last); err != nil { // leaves the group in order
			return err
		}
		r.startProjector(ctx)
	}
	return r.stopProjectors(1)
}

// produceOutside writes to the topics like any other producer: invalid records among others, with timestamps a month
// in the past and in the future.
func (r *rig) produceOutside(ctx context.Context) (err error) {
	w := bus.NewWriter(r.kafka, bus.WithTopics(r.kafka, record.KindNetworkPerson.Topic()))
	defer func() { err = errors.Join(err, w.Close()) }()
	now := time.Now()
	var msgs []kafka.Message
	for i, step := range []time.Duration{0, -30 * 24 * time.Hour, 30 * 24 * time.Hour, -time.Hour, 0} {
		at := fmt.Sprintf("2027-01-01T00:00:%02dZ", i)
		key := fmt.Sprintf("p_%d", i)
		v, err := record.ParseVersion(at)
		if err != nil {
			return err
		}
		id := identity{record.KindNetworkPerson, key}
		r.world.newest[id], r.world.outside[id] = v, true
		msgs = append(msgs,
			kafka.Message{Topic: record.KindNetworkPerson.Topic(), Key: []byte(key), Time: now.Add(step),
				Value: fmt.Appendf(nil,
					`{"profile_id":%q,"username":"outside-%d","last_updated":%q}`, key, i, at)},
			kafka.Message{Topic: record.KindNetworkPerson.Topic(), Key: fmt.Appendf(nil, "bad_%d", i),
				Time: now.Add(-step), Value: []byte("\x00no record")},
		)
		r.world.poison++
	}
	return bus.WriteAll(ctx, w, msgs)
}
