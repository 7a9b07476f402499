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

// apache is Apache Kafka behind a tap that sees requests to append.
type apache struct {
	kafka *kafkatest.Kafka
	tap   *tap
}

// startApache starts a server that tells clients to come to advertise, where
// they are sent on to addr.
func startApache(ctx context.Context, addr, advertise string) (_ kafkaServer, err error) {
	k, err := kafkatest.Start(ctx, kafkatest.Config{Properties: map[string]string{
		"advertised.listeners": "INTERNAL://" + advertise,
		// The outside producer's clock is a month ahead, which the server refuses by itself.
		"log.message.timestamp.after.max.ms": strconv.Itoa(math.MaxInt64),
		// A seed's topics are small; the server sets this much aside for each segment.
		"log.index.size.max.bytes": "65536",
	}})
	if err != nil {
		return nil, err
	}
	t, err := newTap(ctx, addr, k.Addr())
	if err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return &apache{kafka: k, tap: t}, nil
}

func (a *apache) onAppend(applied bool, act func() bool) func() {
	return a.tap.on(&hook{applied: applied, act: act})
}

// trouble kills the server and starts it on its storage again.
func (a *apache) trouble(ctx context.Context, feed func() error) error {
	return during(feed, func() error {
		wait(ctx, 200*time.Millisecond) // into the middle of what goes on
		return errors.Join(a.kafka.Kill(), a.kafka.Restart(ctx))
	})
}

// compact says that it cannot: the log cleaner takes its time, and what it keeps is
// Apache Kafka's to show.
func (a *apache) compact(context.Context) error { return errors.ErrUnsupported }

func (a *apache) close() error { return errors.Join(a.tap.close(), a.kafka.Close()) }

// tap passes Kafka's protocol on, a request or response at a time: four bytes of
// length, then in requests the API key, its version and a correlation id, in
// responses the correlation id (Kafka protocol guide, Request and response headers).
type tap struct {
	listener net.Listener
	server   string
	running  sync.WaitGroup

	mu    sync.Mutex
	hook  *hook // at most one
	conns map[net.Conn]bool
	shut  bool
}

// hook is what is asked at requests to append.
type hook struct {
	applied bool
	act     func() bool
}

func newTap(ctx context.Context, addr, server string) (*tap, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	t := &tap{listener: ln, server: server, conns: make(map[net.Conn]bool)}
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

func (t *tap) on(h *hook) (remove func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hook = h
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.hook = nil
	}
}

func (t *tap) armed() *hook {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.hook
}

// keep notes a connection, so that close ends it; false: the tap is closed.
func (t *tap) keep(c net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.shut {
		return false
	}
	t.conns[c] = true
	return true
}

func (t *tap) drop(c net.Conn) {
	c.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.conns, c)
}

// serve passes one connection on until either side ends it or a hook does.
func (t *tap) serve(client net.Conn) {
	defer t.drop(client)
	server, err := net.Dial("tcp", t.server) //nolint:noctx // loopback; ends with the tap
	if err != nil || !t.keep(client) || !t.keep(server) {
		if server != nil {
			server.Close()
		}
		return // the client sees a broker that is away
	}
	defer t.drop(server)
	var mu sync.Mutex
	lost := make(map[[4]byte]*hook) // by correlation id: requests whose answer a hook is asked about
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

// appendsRecords says whether a request to append names a topic of records.
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

// frames copies length-prefixed frames for as long as pass says so.
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

func (t *tap) close() error {
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
