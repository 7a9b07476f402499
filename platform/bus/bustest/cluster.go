// Package bustest holds the test suites of package bus.
//
// The suites are exported, so that they run against the embedded broker and against Apache Kafka. [Main], called from
// TestMain, selects the cluster by the environment:
//
//	MUSTER_TEST_KAFKA unset   the embedded broker
//	MUSTER_TEST_KAFKA=apache  Apache Kafka, fetched, started and stopped by package kafkatest
//	MUSTER_TEST_KAFKA=apache-sasl-ssl
//	                          the same with TLS and SCRAM
//	MUSTER_TEST_KAFKA=apache-mtls
//	                          the same with TLS and client certificates
//	MUSTER_TEST_KAFKA=env     the cluster of KAFKA_BROKERS and related variables
//
// If the selected cluster is not available, the tests fail; they are not skipped.
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

// restartArg makes the test binary request a restart of the cluster from the running test process: Watermill's suite
// can restart services only by running a program.
const restartArg = "bustest-restart"

// Cluster is the Kafka cluster shared by the tests of a package.
type Cluster struct {
	Config  bus.Config
	restart func(ctx context.Context) error // nil: cannot be restarted
	close   func() error

	control net.Listener
	serving sync.WaitGroup
}

// Main starts the selected cluster, sets *cluster, runs the tests and stops the cluster. It returns the exit code. Use
// it as
//
//	func TestMain(m *testing.M) { os.Exit(bustest.Main(m, &cluster)) }
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
		err = fmt.Errorf("MUSTER_TEST_KAFKA=%q is not apache, apache-sasl-ssl, apache-mtls or env", v)
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
				// An outgoing connection may have taken the port in the meantime.
				<-time.After(50 * time.Millisecond)
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

// RestartCommand returns a program and its arguments that restart the cluster. It is nil if the cluster cannot be
// restarted, or with the race detector.
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
		response := "ok"
		if err := c.restart(ctx); err != nil {
			response = err.Error()
		}
		cancel()
		_, _ = io.WriteString(conn, response) // the requesting program fails without it
		_ = conn.Close()
	}
}

func requestRestart(addr string) int {
	conn, err := net.Dial("tcp", addr) //nolint:gosec,noctx // the address is the test process's own
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	response, err := io.ReadAll(conn)
	_ = conn.Close()
	if err != nil || string(response) != "ok" {
		fmt.Fprintln(os.Stderr, "restart failed:", string(response), err)
		return 1
	}
	return 0
}
