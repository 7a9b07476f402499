// Package bustest runs package bus against a Kafka cluster and proves what the
// package promises.
//
// The suites are exported, so that they run alike against the embedded broker and
// against a real one. [Main], called from TestMain, chooses by the environment:
//
//	MUSTER_TEST_KAFKA unset   the embedded broker
//	MUSTER_TEST_KAFKA=apache  Apache Kafka, fetched, started and stopped by package kafkatest
//	MUSTER_TEST_KAFKA=apache-sasl-ssl
//	                          the same with TLS and SCRAM
//	MUSTER_TEST_KAFKA=apache-mtls
//	                          the same with TLS and certificates of the clients
//	MUSTER_TEST_KAFKA=env     the cluster that KAFKA_BROKERS and its companions name
//
// A cluster that was asked for and cannot be had fails the tests, it never skips them.
package bustest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"muster/platform/broker"
	"muster/platform/bus"
	"muster/platform/bus/kafkatest"
)

// restartArg makes the test binary ask the running test process to restart its
// cluster: Watermill's suite can only restart by running a program.
const restartArg = "bustest-restart"

// Cluster is the Kafka that the tests of a package share.
type Cluster struct {
	Config  bus.Config
	restart func(ctx context.Context) error // nil: cannot be restarted
	close   func() error

	control net.Listener
	serving sync.WaitGroup
}

// Main starts the chosen cluster, runs the tests with it and stops it. Use it as
//
//	func TestMain(m *testing.M) { os.Exit(bustest.Main(m, &cluster)) }
//
// where the tests read cluster.
func Main(m *testing.M, cluster **Cluster) int {
	if len(os.Args) == 3 && os.Args[1] == restartArg {
		return requestRestart(os.Args[2])
	}
	c, err := start(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "start Kafka for the tests:", err)
		return 1
	}
	*cluster = c
	code := m.Run()
	if err := c.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop Kafka of the tests:", err)
		return max(code, 1)
	}
	return code
}

func start(ctx context.Context) (*Cluster, error) {
	var c *Cluster
	var err error
	switch v := os.Getenv("MUSTER_TEST_KAFKA"); v {
	case "":
		c, err = embedded(ctx)
	case "apache":
		c, err = apache(ctx, kafkatest.Config{})
	case "apache-sasl-ssl":
		c, err = apache(ctx, kafkatest.Config{Secure: true})
	case "apache-mtls":
		c, err = apache(ctx, kafkatest.Config{ClientCertificates: true})
	case "env":
		c = &Cluster{close: func() error { return nil }}
		if c.Config, err = bus.ConfigFromEnv(os.Getenv); err == nil && len(c.Config.Brokers) == 0 {
			err = errors.New("MUSTER_TEST_KAFKA=env, but KAFKA_BROKERS is empty")
		}
	default:
		err = fmt.Errorf("MUSTER_TEST_KAFKA=%q is none of apache, apache-sasl-ssl, apache-mtls, env", v)
	}
	if err != nil {
		return nil, err
	}
	c.control, err = (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	c.serving.Go(c.serveRestarts)
	return c, nil
}

func embedded(ctx context.Context) (*Cluster, error) {
	dir, err := os.MkdirTemp("", "bustest-")
	if err != nil {
		return nil, err
	}
	cfg := broker.Config{DataDir: dir, Logger: slog.New(slog.DiscardHandler)}
	b, err := broker.Start(ctx, cfg)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	cfg.Addr = b.Addrs()[0]
	return &Cluster{
		Config: bus.Config{Brokers: b.Addrs()},
		restart: func(ctx context.Context) error {
			if err := b.Close(); err != nil {
				return err
			}
			for {
				started, err := broker.Start(ctx, cfg)
				if err == nil {
					b = started
				}
				if !errors.Is(err, syscall.EADDRINUSE) || ctx.Err() != nil {
					return err
				}
				<-time.After(50 * time.Millisecond) // a connection of somebody's has the port for a moment
			}
		},
		close: func() error { return errors.Join(b.Close(), os.RemoveAll(dir)) },
	}, nil
}

func apache(ctx context.Context, cfg kafkatest.Config) (*Cluster, error) {
	k, err := kafkatest.Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &Cluster{
		Config:  bus.Config{Brokers: []string{k.Addr()}, TLS: k.TLS(), SASL: k.SASL()},
		restart: k.Restart,
		close:   k.Close,
	}, nil
}

func (c *Cluster) stop() error {
	err := c.control.Close()
	c.serving.Wait()
	return errors.Join(err, c.close())
}

// RestartCommand is a program and its arguments that restart the cluster, nil when
// it cannot be restarted or Watermill's suite must not do so.
func (c *Cluster) RestartCommand() []string {
	if c.restart == nil || raceEnabled {
		return nil
	}
	return []string{os.Args[0], restartArg, c.control.Addr().String()}
}

func (c *Cluster) serveRestarts() {
	for {
		conn, err := c.control.Accept()
		if err != nil {
			return // closed by stop
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		answer := "ok"
		if err := c.restart(ctx); err != nil {
			answer = err.Error()
		}
		cancel()
		_, _ = io.WriteString(conn, answer) // the program that asked fails without it
		_ = conn.Close()
	}
}

func requestRestart(addr string) int {
	conn, err := net.Dial("tcp", addr) //nolint:gosec,noctx // the address is the test process's own
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	answer, err := io.ReadAll(conn)
	_ = conn.Close()
	if err != nil || string(answer) != "ok" {
		fmt.Fprintln(os.Stderr, "restart failed:", string(answer), err)
		return 1
	}
	return 0
}
