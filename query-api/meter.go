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
	"muster/query-api/internal/redisguard"
	v1 "muster/query-api/internal/v1"
	"muster/schemas/event"
)

// usageSource is the CloudEvents source of usage events.
const usageSource = "/muster/query-api"

// publishGrace is how long a service that stops waits for its last usage events
// to be published. What is left is published by the next one on its folder.
const publishGrace = 2 * time.Second

// usageBatch is how many usage events the writer makes room for, about what gathers in
// a second: room for 1,000 is 150 KB that are cleared with every write. More go out in
// several batches. usageWait is how long a batch waits for more, of which there are none.
const (
	usageBatch = 200
	usageWait  = 5 * time.Millisecond
)

// answersKey names the key of stored answers.
const answersKey = "idempotent-answers"

// tidyEvery is how often a replica that keeps stored answers on disk removes what is
// over, and those of who was erased since.
const tidyEvery = 15 * time.Second

// OtherReplicas is how long the answers that replicas have given take at most to reach
// the ledger's topic, half of it the outbox's linger: whoever cannot ask a replica
// ([Service.FlushUsage]) waits so long before it reads the ledger. Balances are added up
// after it when there is more than one replica.
const OtherReplicas = 2 * time.Second

// redisPrefix begins the names of all keys in Redis.
const redisPrefix = "muster:"

// shared is what replicas share.
type shared struct {
	rates   limits.Limiter
	credits credits.Store
	answers idempotency.Store
}

func (s *Service) shared() (out shared, err error) {
	// Its metrics are there without Redis, too.
	patience := max(1, s.cfg.redisPatience)
	guard, err := redisguard.New(s.deps.Logger, s.deps.Registerer, redisguard.DefaultTimeouts().Times(patience))
	if err != nil {
		return out, err
	}
	if s.deps.Redis == nil {
		out.credits = credits.NewMemory(s.deps.Now)
		if out.rates, err = limits.NewMemory(s.deps.Now); err != nil {
			return out, err
		}
		s.kept, err = idempotency.OpenDisk(idempotency.DiskConfig{Dir: filepath.Join(s.cfg.DataDir, "answers"), Now: s.deps.Now})
		out.answers = s.kept
		return out, err
	}
	s.deps.Redis.AddHook(guard)
	out.credits = credits.NewRedis(s.deps.Redis, redisPrefix+"credits:")
	out.answers = idempotency.NewRedis(s.deps.Redis, redisPrefix+"answers:")
	s.rates = limits.NewRedis(s.deps.Redis, redisPrefix+"rate:", time.Duration(patience)*limits.TakeTimeout)
	out.rates = s.rates
	return out, nil
}

// openMeter opens everything that counts and charges calls.
func (s *Service) openMeter() error {
	key, err := s.deps.Secret.Key(event.UsageIdentityKey, event.UsageIdentityKeySize)
	if err != nil {
		return err
	}
	sealing, err := s.deps.Secret.Key(answersKey, idempotency.KeyBytes)
	if err != nil {
		return err
	}
	// The outbox first: its lock keeps a second process off the folder.
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
	s.meter = metering.New(metering.Config{Lease: 4*s.cfg.RequestTimeout + max(s.cfg.DiscoveryBudget, event.MaxContextTimeout)}, metering.Deps{
		Credits: state.credits, Limits: state.rates, Ledger: s.outbox, Answers: answers, IdentityKey: key, Sums: s.sums, Has: s.counted,
		Now: s.deps.Now, Logger: s.deps.Logger, Erased: s.erasedAnswer,
	})
	return nil
}

// closeMeter closes what counts, for a service that does not run.
func (s *Service) closeMeter() error {
	s.closeRates()
	err := s.outbox.Close()
	if s.kept != nil {
		err = errors.Join(err, s.kept.Close())
	}
	return err
}

// closeRates waits for Redis to decide what nobody waits for any more.
func (s *Service) closeRates() {
	if s.rates != nil {
		s.rates.Close()
	}
}

// tidyAnswers removes stored answers from disk that are over or tell of somebody who
// was erased, until ctx ends.
func (s *Service) tidyAnswers(ctx context.Context) {
	if s.kept == nil {
		return
	}
	ticker := time.NewTicker(tidyEvery)
	defer ticker.Stop()
	// What an erasure reaches beyond its identifiers is found a moment after it: the
	// answers are looked through at the next tick and at the one after it.
	var seen, looks uint64
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := s.kept.Sweep()
		if changes := s.suppressions(); changes != seen {
			seen, looks = changes, 2
		}
		if looks > 0 && err == nil {
			looks--
			err = s.stored.Purge(ctx, s.erasedAnswer)
		}
		if err != nil && ctx.Err() == nil {
			s.deps.Logger.Warn("stored answers are not tidied", slog.Any("error", err))
		}
	}
}

// suppressions counts the changes of the suppression set.
func (s *Service) suppressions() uint64 {
	if s.deps.Suppressed == nil {
		return 0
	}
	changes, _ := s.deps.Suppressed.Changes()
	return changes
}

// erasedAnswer says that an answer that was kept tells of somebody who was erased, by whatever
// identifier: one of its records or accounts is theirs, or has their address in it, as commits do. A
// profile of unstructured data may hold anything, and is looked at as it is when it is
// fetched; so is what was stored without saying of what endpoint it is.
func (s *Service) erasedAnswer(a idempotency.Answer) bool {
	if s.store.Erased(a.Identities) || s.deps.Suppressed.Addresses(a.Body) {
		return true
	}
	if a.Endpoint == "" || a.Endpoint == v1.ContextPath {
		_, erased := s.deps.Suppressed.Document(s.deps.Platforms, a.Body)
		return erased
	}
	return slices.ContainsFunc(a.Identifiers, s.store.ErasedIdentifier) || slices.ContainsFunc(a.Accounts, func(account string) bool {
		platform, username, _ := strings.Cut(account, " ")
		return s.store.ErasedAccount(platform, username)
	})
}

// sums adds up the ledger, what has just been answered included.
func (s *Service) sums(ctx context.Context, period string) (credits.Sums, error) {
	if s.deps.Redis != nil {
		timer := time.NewTimer(OtherReplicas)
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
	return ledger.Reader{Conn: s.deps.ClickHouse, Bus: s.deps.Bus}.Sums(ctx, period)
}

// counted reports whether the ledger has a call, what is not published yet
// included.
func (s *Service) counted(ctx context.Context, organization, period, requestID string) (bool, error) {
	if err := s.outbox.Flush(ctx); err != nil {
		return false, err
	}
	return ledger.Reader{Conn: s.deps.ClickHouse, Bus: s.deps.Bus}.Has(ctx, organization, period, requestID)
}

// writeLedger publishes usage events until ctx ends.
func (s *Service) writeLedger(ctx context.Context) error {
	writer := bus.NewWriter(s.deps.Bus, bus.WithTopics(s.deps.Bus, event.TopicUsage), bus.WithWriterLogger(s.deps.Logger), bus.WithBatch(usageBatch, usageWait))
	err := s.outbox.Run(ctx, publishGrace, func(ctx context.Context, events []ledger.Event) error {
		messages := make([]kafka.Message, len(events))
		for i := range events {
			messages[i] = usageMessage(&events[i])
		}
		if err := bus.WriteAll(ctx, writer, messages); err != nil {
			return fmt.Errorf("write usage events: %w", err)
		}
		return s.settle(ctx, events)
	})
	if closeErr := writer.Close(); closeErr != nil {
		err = errors.Join(err, fmt.Errorf("close the ledger's writer: %w", closeErr))
	}
	return err
}

// settleAgain is how long settling waits while Redis is away.
const settleAgain = time.Second

// settle waits for Redis, rather than have what is on the topic written again.
func (s *Service) settle(ctx context.Context, events []ledger.Event) error {
	for {
		err := s.meter.Settle(ctx, events)
		if !errors.Is(err, redisguard.ErrAway) {
			return err
		}
		timer := time.NewTimer(settleAgain)
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
			ID: u.RequestID, Type: event.TypeUsage, Source: usageSource, Subject: u.OrganizationID, Time: u.At, ContentType: "application/json",
		}),
	}
}

// balance loads the balances of the current period, trying until ctx ends.
func (s *Service) balance(ctx context.Context) {
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
		s.deps.Logger.LogAttrs(ctx, slog.LevelWarn, "balances cannot be added up yet, trying again", slog.Any("error", err))
		timer := time.NewTimer(pause.NextBackOff())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}
