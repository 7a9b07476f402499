package standalone

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/platform/broker"
	"muster/platform/bus"
	"muster/platform/clickhouse"
	"muster/platform/engine"
	"muster/platform/service"
	"muster/schemas/readmodel"
)

const (
	database    = "muster"
	serviceUser = "muster"
)

// AnalystDatabases returns the databases that the embedded engine's analyst reads without a password.
func AnalystDatabases() []string { return []string{readmodel.ViewsDatabase(database)} }

// kafkaBackend is the embedded Kafka broker, or an external Kafka.
type kafkaBackend struct {
	config bus.Config
	// user and password are the credentials of the embedded broker, which config has too.
	user, password string
	// compact compacts the log; nil for an external Kafka.
	compact func(context.Context) error
	// retain applies the retention of the topics; nil for an external Kafka.
	retain func(context.Context) error
	// while returns a context that ends when the broker fails, with err as its cause. Until then err returns nil.
	while func(context.Context) (context.Context, context.CancelFunc)
	err   func() error
	close func() error
}

func openKafka(ctx context.Context, cfg Config, deps Deps, secret *service.RootSecret) (kafkaBackend, error) {
	external, err := bus.ConfigFromEnv(deps.Getenv)
	if err != nil {
		return kafkaBackend{}, err
	}
	if len(external.Brokers) > 0 {
		external.Logger = deps.Telemetry.Logger
		return kafkaBackend{config: external, while: context.WithCancel, err: func() error { return nil },
			close: func() error { return nil }}, nil
	}
	// The broker has full access, and other users of the machine can connect to it: require a password.
	key, err := secret.Key("kafka-service-user", 24)
	if err != nil {
		return kafkaBackend{}, err
	}
	password := hex.EncodeToString(key)
	login, err := bus.SCRAM(serviceUser, password)
	if err != nil {
		return kafkaBackend{}, err
	}
	b, err := broker.Start(ctx, broker.Config{
		DataDir: filepath.Join(cfg.DataDir, "kafka"), Addr: cfg.KafkaAddr, Logger: deps.Telemetry.Logger,
		Users:      []broker.User{{Mechanism: login.Name(), Name: serviceUser, Password: password}},
		AcceptLoss: func(topic string) bool { return slices.Contains(cfg.AcceptDataLoss, topic) },
	})
	if lost, ok := errors.AsType[*broker.LossError](err); ok {
		return kafkaBackend{},
			fmt.Errorf("start the embedded Kafka broker: %w; restore a backup (muster backup restore), "+
				"or start without the lost messages once: --accept-data-loss %s", err,
				strings.Join(lost.Topics, " --accept-data-loss "))
	}
	if err != nil {
		return kafkaBackend{}, fmt.Errorf("start the embedded Kafka broker: %w", err)
	}
	return kafkaBackend{
		config: bus.Config{Brokers: b.Addrs(), SASL: login, ClientID: "muster", Logger: deps.Telemetry.Logger},
		user:   serviceUser, password: password,
		compact: b.Compact, retain: b.Retain, while: b.WithFailure, err: b.Err, close: b.Close,
	}, nil
}

// retentionEvery is the interval of retention runs of the embedded broker. The first one is an interval after the
// start, so that messages from before a long stop are processed first.
const retentionEvery = time.Hour

// runRetention runs the retention of the embedded broker every [retentionEvery] until ctx ends.
func (b kafkaBackend) runRetention(ctx context.Context, logger *slog.Logger) error {
	ticker := time.NewTicker(retentionEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if b.retain == nil {
			continue
		}
		if err := b.retain(ctx); err != nil && ctx.Err() == nil {
			logger.WarnContext(ctx, "broker: retention run failed, will retry", slog.Any("error", err))
		}
	}
}

// clickHouseBackend is the embedded ClickHouse engine, or an external ClickHouse.
type clickHouseBackend struct {
	config clickhouse.Config
	// down is closed when the engine has exited for good; nil for an external ClickHouse.
	down  <-chan struct{}
	close func() error
}

func openClickHouse(ctx context.Context, cfg Config, deps Deps, secret *service.RootSecret) (clickHouseBackend, error) {
	external, err := clickhouse.ConfigFromEnv(deps.Getenv)
	if err != nil {
		return clickHouseBackend{}, err
	}
	if external.DSN != "" {
		return clickHouseBackend{config: external, close: func() error { return nil }}, nil
	}
	password, err := secret.Key("clickhouse-service-user", 24)
	if err != nil {
		return clickHouseBackend{}, err
	}
	shown := ""
	process, err := engine.Start(context.WithoutCancel(ctx), engine.SupervisorConfig{
		Command: deps.EngineCommand,
		Server: engine.ServerConfig{
			Dir: cfg.engineDir(), Addr: cfg.ClickHouseAddr,
			User: serviceUser, Password: hex.EncodeToString(password), Grace: time.Second,
			AnalystDatabases: AnalystDatabases(),
		},
		Logger: deps.Telemetry.Logger,
		LibraryProgress: func(stage string, done, total int64) {
			if stage != shown {
				if shown != "" {
					deps.Progress.End()
				}
				deps.Progress.Begin("ClickHouse engine: "+stage, unknownIfZero(total))
				shown = stage
			}
			deps.Progress.Set(done)
		},
	})
	if shown != "" {
		deps.Progress.End()
	}
	if _, damaged := errors.AsType[*engine.MetadataError](err); damaged {
		return clickHouseBackend{},
			fmt.Errorf("start the embedded ClickHouse engine: %w; restore a backup (muster backup restore), "+
				"or recreate the tables (operators.md, Damaged tables)", err)
	}
	if err != nil {
		return clickHouseBackend{}, fmt.Errorf("start the embedded ClickHouse engine: %w", err)
	}
	// The supervisor bounds the time: it kills an engine that does not stop.
	stop := func() error { return process.Stop(context.WithoutCancel(ctx)) }
	if err := createDatabase(ctx, process.DSN("default")); err != nil {
		return clickHouseBackend{}, errors.Join(err, stop())
	}
	return clickHouseBackend{config: clickhouse.Config{DSN: process.DSN(database)}, down: process.Done(), close: stop},
		nil
}

func unknownIfZero(total int64) int64 {
	if total == 0 {
		return -1
	}
	return total
}

func createDatabase(ctx context.Context, dsn string) (err error) {
	conn, err := clickhouse.Open(ctx, clickhouse.Config{DSN: dsn, MaxOpenConns: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := conn.Exec(ctx, "CREATE DATABASE IF NOT EXISTS "+database); err != nil {
		return fmt.Errorf("create the database of the read models: %w", err)
	}
	return nil
}

func openConnection(ctx context.Context, cfg clickhouse.Config, client string, connections int,
	deps Deps) (driver.Conn, error) {
	cfg.ClientName, cfg.MaxOpenConns, cfg.Logger = client, connections, deps.Telemetry.Logger
	return clickhouse.Open(ctx, cfg)
}
