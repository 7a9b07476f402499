package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"strconv"
	"sync"
	"time"

	"muster/platform/bus/kafkatest"
)

// apache is an Apache Kafka broker behind a proxy that detects append requests.
type apache struct {
	kafka      *kafkatest.Kafka
	kafkaProxy *kafkaProxy
}

// startApache starts a broker that advertises advertise to clients, which is forwarded to addr.
func startApache(ctx context.Context, addr, advertise string) (_ kafkaServer, err error) {
	k, err := kafkatest.Start(ctx, kafkatest.Config{Properties: map[string]string{
		"advertised.listeners": "INTERNAL://" + advertise,
		// The outside producer's clock is a month ahead, which the broker rejects by default.
		"log.message.timestamp.after.max.ms": strconv.Itoa(math.MaxInt64),
		// The broker allocates this much for each segment, and the topics of a seed are small.
		"log.index.size.max.bytes": "65536",
	}})
	if err != nil {
		return nil, err
	}
	t, err := newKafkaProxy(ctx, addr, k.Addr())
	if err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return &apache{kafka: k, kafkaProxy: t}, nil
}

func (a *apache) onAppend(applied bool, act func() bool) func() {
	return a.kafkaProxy.arm(&hook{applied: applied, act: act})
}

// injectFault kills the broker and restarts it on its storage.
func (a *apache) injectFault(ctx context.Context, feed func() error) error {
	return concurrently(feed, func() error {
		wait(ctx, 200*time.Millisecond) // until the pipeline is busy
		return errors.Join(a.kafka.Kill(), a.kafka.Restart(ctx))
	})
}

// compact returns ErrUnsupported: the log cleaner is slow, and compaction is tested with the embedded broker.
func (a *apache) compact(context.Context) error { return errors.ErrUnsupported }

func (a *apache) close() error { return errors.Join(a.kafkaProxy.close(), a.kafka.Close()) }

// kafkaProxy forwards the Kafka protocol frame by frame: four bytes of length, then in requests the API key, its
// version and a correlation ID, in responses the correlation ID (Kafka protocol guide, Request and response
// headers).
type kafkaProxy struct {
	listener net.Listener
	server   string
	running  sync.WaitGroup

	mu    sync.Mutex
	hook  *hook // at most one
	conns map[net.Conn]bool
	shut  bool
}

// hook is called for append requests.
type hook struct {
	applied bool
	act     func() bool
}

func newKafkaProxy(ctx context.Context, addr, server string) (*kafkaProxy, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	t := &kafkaProxy{listener: ln, server: server, conns: make(map[net.Conn]bool)}
	t.running.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return // closed
			}
			t.running.Go(func() { t.serve(client) })
		}
	})
	return t, nil
}

func (t *kafkaProxy) arm(h *hook) (remove func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hook = h
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.hook = nil
	}
}

func (t *kafkaProxy) armed() *hook {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.hook
}

// keep registers a connection, so that close can close it. It returns false if the proxy is closed.
func (t *kafkaProxy) keep(c net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.shut {
		return false
	}
	t.conns[c] = true
	return true
}

func (t *kafkaProxy) drop(c net.Conn) {
	c.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.conns, c)
}

// serve forwards one connection until a side or a hook closes it.
func (t *kafkaProxy) serve(client net.Conn) {
	defer t.drop(client)
	server, err := net.Dial("tcp", t.server) //nolint:noctx // loopback; ends with the proxy
	if err != nil || !t.keep(client) || !t.keep(server) {
		if server != nil {
			server.Close()
		}
		return // the broker is unavailable
	}
	defer t.drop(server)
	var mu sync.Mutex
	lost := make(map[[4]byte]*hook) // by correlation ID: requests whose response may be dropped
	var back sync.WaitGroup
	back.Go(func() {
		defer client.Close()
		frames(server, client, func(frame []byte) bool {
			mu.Lock()
			h := lost[[4]byte(frame)]
			delete(lost, [4]byte(frame))
			mu.Unlock()
			return h == nil || !h.act()
		})
	})
	frames(client, server, func(frame []byte) bool {
		const apiKey, correlation, header = 2, 4, 8
		h := t.armed()
		if h == nil || len(frame) < header || binary.BigEndian.Uint16(frame[:apiKey]) != 0 || !appendsRecords(frame) {
			return true
		}
		if !h.applied {
			return !h.act()
		}
		mu.Lock()
		defer mu.Unlock()
		lost[[4]byte(frame[header-correlation:header])] = h
		return true
	})
	server.Close()
	back.Wait()
}

// appendsRecords reports whether an append request names a record topic.
func appendsRecords(frame []byte) bool {
	for rest := frame; ; {
		at := bytes.Index(rest, []byte("muster.record."))
		if at < 0 {
			return false
		}
		rest = rest[at:]
		if holdsRecords(string(rest[:min(len(rest), 32)])) {
			return true
		}
		rest = rest[1:]
	}
}

// frames copies length-prefixed frames while pass returns true.
func frames(from io.Reader, to io.Writer, pass func(frame []byte) bool) {
	const most = 64 << 20
	for {
		var size [4]byte
		if _, err := io.ReadFull(from, size[:]); err != nil {
			return
		}
		n := binary.BigEndian.Uint32(size[:])
		if n < 4 || n > most {
			return
		}
		frame := make([]byte, n)
		if _, err := io.ReadFull(from, frame); err != nil || !pass(frame) {
			return
		}
		if _, err := to.Write(append(size[:], frame...)); err != nil {
			return
		}
	}
}

func (t *kafkaProxy) close() error {
	err := t.listener.Close()
	t.mu.Lock()
	t.shut = true
	for c := range t.conns {
		c.Close()
	}
	t.mu.Unlock()
	t.running.Wait()
	return err
}
