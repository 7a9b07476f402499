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
	"log/slog"
	"os"
	"syscall"
	"testing"
	"time"

	"muster/platform/broker"
	"muster/platform/bus"
	"muster/platform/bus/kafkatest"
)

// Cluster is the Kafka cluster shared by the tests of a package.
type Cluster struct {
	Config  bus.Config
	restart func(ctx context.Context) error // nil: cannot be restarted
	close   func() error
}

// Main starts the selected cluster, sets *cluster, runs the tests and stops the cluster. It returns the exit code. Use
// it as
//
//	func TestMain(m *testing.M) { os.Exit(bustest.Main(m, &cluster)) }
func Main(m *testing.M, cluster **Cluster) int {
	c, err := start(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "start Kafka for the tests:", err)
		return 1
	}
	*cluster = c
	code := m.Run()
	if err := c.close(); err != nil {
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
