package queryapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	"muster/query-api/internal/credits"
	"muster/query-api/internal/idempotency"
	"muster/query-api/internal/ledger"
	"muster/query-api/internal/limits"
	"muster/query-api/internal/metering"
	"muster/query-api/internal/redisbreaker"
	v1 "muster/query-api/internal/v1"
	"muster/schemas/event"
	"muster/schemas/suppress"
)

// usageSource is the CloudEvents source of usage events.
const usageSource = "/muster/query-api"

// publishGrace is how long a stopping service waits until its last usage events are published. The
// rest is published by the next process that uses the data directory.
const publishGrace = 2 * time.Second

// usageBatch is the batch size of the usage writer, about the events of one second; larger writes are split. A batch of
// 1,000 would clear a 150 KB buffer with every write. usageWait is how long a batch waits for more events; writes are
// already batched, so it is short.
const (
	usageBatch = 200
	usageWait  = 5 * time.Millisecond
)

// answersKey is the name of the key that encrypts stored responses.
const answersKey = "idempotent-answers"

// purgeInterval is how often a replica removes expired responses, and those about erased people,
// from disk.
const purgeInterval = 15 * time.Second

// ReplicaPublishGrace is the maximum delay between a response of another replica and its usage event on
// the ledger topic; half of it is the outbox linger. Readers that cannot call [Service.FlushUsage]
// on every replica wait this long before reading the ledger, and so does the balance computation if
// there are several replicas.
const ReplicaPublishGrace = 2 * time.Second

// redisPrefix is the prefix of all Redis keys.
const redisPrefix = "muster:"

// shared is the state shared by all replicas.
type shared struct {
	rates   limits.Limiter
	credits credits.Store
	answers idempotency.Store
}

// shared opens the shared state: in Redis, or in memory and on disk for a single replica.
func (s *Service) shared() (out shared, err error) {
	// The breaker is created without Redis, too, to register its metrics.
	factor := max(1, s.cfg.redisTimeoutFactor)
	guard, err := redisbreaker.New(s.deps.Logger, s.deps.Registerer, redisbreaker.DefaultTimeouts().Times(factor))
	if err != nil {
		return out, err
	}
	if s.deps.Redis == nil {
		out.credits = credits.NewMemory(s.deps.Now)
		if out.rates, err = limits.NewMemory(s.deps.Now); err != nil {
			return out, err
		}
		s.kept, err = idempotency.OpenDisk(idempotency.DiskConfig{Dir: filepath.Join(s.cfg.DataDir, "answers"),
			Now: s.deps.Now})
		out.answers = s.kept
		return out, err
	}
	s.deps.Redis.AddHook(guard)
	out.credits = credits.NewRedis(s.deps.Redis, redisPrefix+"credits:")
	out.answers = idempotency.NewRedis(s.deps.Redis, redisPrefix+"answers:")
	s.rates = limits.NewRedis(s.deps.Redis, redisPrefix+"rate:", time.Duration(factor)*limits.AllowTimeout)
	out.rates = s.rates
	return out, nil
}

// openMeter opens the stores that metering uses.
func (s *Service) openMeter() error {
	disclosed, err := s.disclosed()
	if err != nil {
		return err
	}
	sealing, err := s.deps.Secret.Key(answersKey, idempotency.KeyBytes)
	if err != nil {
		return err
	}
	// The outbox comes first: its lock keeps a second process off the directory.
	s.outbox, err = ledger.Open(ledger.Config{Dir: filepath.Join(s.cfg.DataDir, "outbox"), Logger: s.deps.Logger})
	if err != nil {
		return err
	}
	state, err := s.shared()
	if err != nil {
		return errors.Join(err, s.closeMeter())
	}
	answers, err := idempotency.NewAnswers(state.answers, sealing)
	if err != nil {
		return errors.Join(err, s.closeMeter())
	}
	s.stored = answers
	s.meter = metering.New(metering.Config{Lease: 4*s.cfg.RequestTimeout +
		max(s.cfg.DiscoveryBudget, event.MaxContextTimeout)}, metering.Deps{
		Credits: state.credits, Limits: state.rates, Ledger: s.outbox, Answers: answers, Disclosed: disclosed,
		Balances: s.balances, Charged: s.charged,
		Now: s.deps.Now, Logger: s.deps.Logger, Erased: s.isErased,
	})
	return nil
}

// disclosed returns a function that seals the people of returned records for the ledger.
func (s *Service) disclosed() (func(identities []string) []string, error) {
	key, err := s.deps.Secret.Key(event.DisclosureKeyName, event.DisclosureKeySize)
	if err != nil {
		return nil, err
	}
	sealing, err := event.NewDisclosureCipher(key)
	if err != nil {
		return nil, err
	}
	if key, err = s.deps.Secret.Key(suppress.KeyName, suppress.KeySize); err != nil {
		return nil, err
	}
	hashing, err := suppress.NewKey(key)
	if err != nil {
		return nil, err
	}
	return func(identities []string) (out []string) {
		for _, name := range identities {
			if d, ok := hashing.Record(name); ok {
				out = append(out, sealing.Seal(d))
			}
		}
		return out
	}, nil
}

// closeMeter closes the metering stores of a service that does not run.
func (s *Service) closeMeter() error {
	s.closeRates()
	err := s.outbox.Close()
	if s.kept != nil {
		err = errors.Join(err, s.kept.Close())
	}
	return err
}

// closeRates waits for pending rate-limit requests to Redis.
func (s *Service) closeRates() {
	if s.rates != nil {
		s.rates.Close()
	}
}

// purgeAnswers removes expired responses, and responses about erased people, from disk until ctx
// ends.
func (s *Service) purgeAnswers(ctx context.Context) {
	if s.kept == nil {
		return
	}
	ticker := time.NewTicker(purgeInterval)
	defer ticker.Stop()
	// An erasure is extended to related identifiers shortly after it arrives, so responses are checked at the next two
	// ticks.
	var seen, passes uint64
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := s.kept.Sweep()
		if changes := s.suppressions(); changes != seen {
			seen, passes = changes, 2
		}
		if passes > 0 && err == nil {
			passes--
			err = s.stored.Purge(ctx, s.isErased)
		}
		if err != nil && ctx.Err() == nil {
			s.deps.Logger.Warn("query-api: purge of stored responses failed", slog.Any("error", err))
		}
	}
}

// suppressions returns the number of changes of the suppression set.
func (s *Service) suppressions() uint64 {
	if s.deps.Suppressed == nil {
		return 0
	}
	changes, _ := s.deps.Suppressed.Changes()
	return changes
}

// isErased reports whether a stored response is about an erased person, by any identifier: a record
// or account of the response belongs to them, or it contains their email address, as commits do.
// Profiles of unstructured data, and responses stored without an endpoint, may contain anything, so
// their body is checked as well.
func (s *Service) isErased(a idempotency.Answer) bool {
	if s.deps.Suppressed.IsAnyNamed(a.Identities) || s.deps.Suppressed.Addresses(a.Body) {
		return true
	}
	if a.Endpoint == "" || a.Endpoint == v1.ContextPath {
		_, erased := s.deps.Suppressed.FindInDocument(s.deps.Platforms, a.Body)
		return erased
	}
	return slices.ContainsFunc(a.Identifiers, s.deps.Suppressed.Identifier) ||
		slices.ContainsFunc(a.Accounts, func(account string) bool {
			platform, username, _ := strings.Cut(account, " ")
			_, erased := s.deps.Suppressed.Account(platform, username)
			return erased
		})
}

// balances sums up the ledger, including calls just answered.
func (s *Service) balances(ctx context.Context, period string) (credits.Balances, error) {
	if s.deps.Redis != nil {
		timer := time.NewTimer(ReplicaPublishGrace)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for other replicas: %w", context.Cause(ctx))
		}
	}
	if err := s.outbox.Flush(ctx); err != nil {
		return nil, err
	}
	return ledger.Reader{Conn: s.deps.ClickHouse, Bus: s.deps.Bus}.Balances(ctx, period)
}

// charged returns which calls the ledger has, including unpublished events.
func (s *Service) charged(
	ctx context.Context, organization, period string, requestIDs []string,
) (map[string]bool, error) {
	if err := s.outbox.Flush(ctx); err != nil {
		return nil, err
	}
	return ledger.Reader{Conn: s.deps.ClickHouse, Bus: s.deps.Bus}.Charged(ctx, organization, period, requestIDs)
}

// writeLedger publishes usage events until ctx ends.
func (s *Service) writeLedger(ctx context.Context) error {
	writer := bus.NewWriter(s.deps.Bus, bus.WithTopics(s.deps.Bus, event.TopicUsage),
		bus.WithWriterLogger(s.deps.Logger), bus.WithBatch(usageBatch, usageWait))
	err := s.outbox.Run(ctx, publishGrace, func(ctx context.Context, events []ledger.Event) error {
		messages := make([]kafka.Message, len(events))
		for i := range events {
			messages[i] = usageMessage(&events[i])
		}
		if err := bus.WriteAll(ctx, writer, messages); err != nil {
			return fmt.Errorf("write usage events: %w", err)
		}
		return nil
	}, s.settle)
	if closeErr := writer.Close(); closeErr != nil {
		err = errors.Join(err, fmt.Errorf("close ledger writer: %w", closeErr))
	}
	return err
}

// settleRetryInterval is the pause between attempts to settle while Redis is unavailable.
const settleRetryInterval = time.Second

// settle settles published events. It retries while Redis is unavailable: the outage is logged, and returning the error
// would log it again.
func (s *Service) settle(ctx context.Context, events []ledger.Event) error {
	for {
		err := s.meter.Settle(ctx, events)
		if !errors.Is(err, redisbreaker.ErrUnavailable) {
			return err
		}
		timer := time.NewTimer(settleRetryInterval)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

func usageMessage(u *ledger.Event) kafka.Message {
	return kafka.Message{
		Topic: event.TopicUsage, Key: []byte(u.OrganizationID), Value: u.JSON,
		Headers: bus.SetEvent(nil, bus.Event{
			ID: u.RequestID, Type: event.TypeUsage, Source: usageSource, Subject: u.OrganizationID, Time: u.At,
			ContentType: "application/json",
		}),
	}
}

// loadBalances loads the balances of the current period, and retries until ctx ends.
func (s *Service) loadBalances(ctx context.Context) {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 50*time.Millisecond, 2*time.Second
	for {
		err := s.meter.Load(ctx, event.PeriodOf(s.deps.Now()))
		if err == nil {
			s.balanced.Store(true)
			return
		}
		if ctx.Err() != nil {
			return
		}
		s.deps.Logger.LogAttrs(ctx, slog.LevelWarn, "query-api: loading balances failed, retrying",
			slog.Any("error", err))
		timer := time.NewTimer(pause.NextBackOff())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}
