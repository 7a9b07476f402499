package metering_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/platform/polltest"
	"muster/query-api/internal/account"
	"muster/query-api/internal/credits"
	"muster/query-api/internal/idempotency"
	"muster/query-api/internal/ledger"
	"muster/query-api/internal/limits"
	"muster/query-api/internal/metering"
	"muster/schemas/event"
)

// replies executes one operation of the stores but loses its reply.
type replies struct {
	lose string
	lost bool
	// unsent counts down to the Begin of an answer that fails before it is sent, like that of a client that has left.
	unsent int
}

var errLost = errors.New("i/o timeout")

func (r *replies) of(op string, err error) error {
	if err == nil && op == r.lose && !r.lost {
		r.lost = true
		return errLost
	}
	return err
}

type lossyCredits struct {
	credits.Store
	replies *replies
}

func (s lossyCredits) Reserve(ctx context.Context, c credits.Claim) (credits.Balance, error) {
	b, err := s.Store.Reserve(ctx, c)
	return b, s.replies.of("reserve", err)
}

func (s lossyCredits) Commit(ctx context.Context, c credits.Claim, requests, used int64) (credits.Balance, error) {
	b, err := s.Store.Commit(ctx, c, requests, used)
	return b, s.replies.of("commit", err)
}

func (s lossyCredits) Settle(ctx context.Context, claims []credits.Claim) error {
	return s.replies.of("settle", s.Store.Settle(ctx, claims))
}

func (s lossyCredits) Release(ctx context.Context, claims []credits.Claim) error {
	return s.replies.of("release", s.Store.Release(ctx, claims))
}

type lossyAnswers struct {
	idempotency.Store
	replies *replies
}

func (s lossyAnswers) Begin(
	ctx context.Context, name, fingerprint, owner string, lease time.Duration,
) (idempotency.State, []byte, error) {
	if s.replies.unsent--; s.replies.unsent == 0 {
		return 0, nil, context.Canceled
	}
	state, value, err := s.Store.Begin(ctx, name, fingerprint, owner, lease)
	return state, value, s.replies.of("begin", err)
}

// books is a meter with the events of its ledger.
type books struct {
	*metering.Meter
	outbox *ledger.Outbox
	limits event.Limits
	ledger map[string]event.Usage
	later  atomic.Int64 // offset of the clock of the balances, in nanoseconds
	// written and settled are the numbers of events.
	written, settled atomic.Int64
}

// flush publishes and settles all events.
func (b *books) flush(t *testing.T) {
	t.Helper()
	require.NoError(t, b.outbox.Flush(t.Context()))
	polltest.Until(t, time.Minute, func() bool { return b.settled.Load() == b.written.Load() }, "events are not settled")
}

func openBooks(t *testing.T, replies *replies) *books {
	t.Helper()
	rates, err := limits.NewMemory(time.Now)
	require.NoError(t, err)
	outbox, err := ledger.Open(ledger.Config{Dir: t.TempDir(), Linger: -1})
	require.NoError(t, err)
	disk, err := idempotency.OpenDisk(idempotency.DiskConfig{Dir: t.TempDir()})
	require.NoError(t, err)
	answers, err := idempotency.NewAnswers(lossyAnswers{disk, replies}, make([]byte, idempotency.KeyBytes))
	require.NoError(t, err)
	b := &books{outbox: outbox, limits: event.DefaultLimits(), ledger: make(map[string]event.Usage)}
	b.Meter = metering.New(metering.Config{Lease: time.Hour}, metering.Deps{
		Credits: lossyCredits{credits.NewMemory(
			func() time.Time { return time.Now().Add(time.Duration(b.later.Load())) }), replies}, Limits: rates,
		Ledger: outbox, Answers: answers,
		Now: time.Now, Logger: slog.New(slog.DiscardHandler),
		Balances: func(context.Context, string) (credits.Balances, error) { return nil, nil },
		Charged: func(ctx context.Context, _, _ string, ids []string) (map[string]bool, error) {
			err := outbox.Flush(ctx)
			charged := make(map[string]bool)
			for _, id := range ids {
				_, charged[id] = b.ledger[id]
			}
			return charged, err
		},
	})
	ctx, stop := context.WithCancel(t.Context())
	go b.Run(ctx)
	published := make(chan error, 1)
	go func() {
		published <- outbox.Run(ctx, time.Minute, func(_ context.Context, events []ledger.Event) error {
			for _, e := range events {
				if _, there := b.ledger[e.RequestID]; !there || e.Outcome != event.OutcomeUnanswered {
					b.ledger[e.RequestID] = e.Usage
				}
			}
			b.written.Add(int64(len(events)))
			return nil
		}, func(ctx context.Context, events []ledger.Event) error {
			err := b.Settle(ctx, events)
			if err == nil {
				b.settled.Add(int64(len(events)))
			}
			return err
		})
	}()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-published)
		require.NoError(t, disk.Close())
	})
	return b
}

// begin starts a call of the enrich endpoint.
func (b *books) begin(id string, counted bool) *metering.Call {
	return b.Begin(metering.Request{
		ID: id, Method: http.MethodPost, Endpoint: "/v1/person/enrich", Counted: counted,
		Price: func(p event.Prices) int64 { return p.PersonEnrich },
		Principal: account.Principal{Organization: event.Organization{ID: "o", Limits: &b.limits},
			Key: event.Key{ID: "k"}},
	})
}

// balanced checks that the balances, without reservations, and the ledger have the given requests and credits.
func (b *books) balanced(t *testing.T, requests, used int64) {
	t.Helper()
	b.flush(t)
	u, err := b.Usage(t.Context(), "o", event.PeriodOf(time.Now()))
	require.NoError(t, err)
	require.Equal(t, credits.Balance{Requests: requests, Credits: used}, u.Balance)
	var sum credits.Balance
	for _, u := range b.ledger {
		sum.Requests += u.Requests
		sum.Credits += u.Credits
	}
	require.Equal(t, u.Balance, sum, "the ledger")
}

func TestCall_LostRepliesAreCompensated(t *testing.T) {
	for _, counted := range []bool{false, true} {
		for _, lose := range []string{"begin", "reserve", "commit"} {
			t.Run(lose, func(t *testing.T) {
				b := openBooks(t, &replies{lose: lose})
				call := b.begin("1", counted)
				call.Idempotent("key", "/x", []byte("{}"))
				res, err := call.Reserve(t.Context(), 1)
				if lose == "commit" {
					require.NoError(t, err)
					_, err = res.Commit(t.Context(), metering.Used{Units: 1})
				}
				require.ErrorIs(t, err, metering.ErrUnavailable)
				require.ErrorIs(t, err, errLost)
				require.NoError(t, call.End(t.Context(), http.StatusInternalServerError, metering.Whole))
				var requests int64
				if counted && lose == "commit" {
					requests = 1
				}
				b.balanced(t, requests, 0)

				again := b.begin("2", false)
				again.Idempotent("key", "/x", []byte("{}"))
				res, err = again.Reserve(t.Context(), 1)
				require.NoError(t, err)
				_, err = res.Commit(t.Context(), metering.Used{Units: 1})
				require.NoError(t, err)
				require.NoError(t, again.End(t.Context(), http.StatusOK, metering.Whole))
				b.balanced(t, requests, 1)
			})
		}
	}
}

func TestCall_LostReplyOfRejectionCountsAtMostOnce(t *testing.T) {
	for _, lose := range []string{"reserve", "commit", "none"} {
		t.Run(lose, func(t *testing.T) {
			b := openBooks(t, &replies{lose: lose})
			b.limits.Credits = 0
			call := b.begin("1", true)
			_, err := call.Reserve(t.Context(), 1)
			var requests int64
			if lose == "none" {
				requests = 1
				require.ErrorAs(t, err, new(*metering.LimitError))
			} else {
				require.ErrorIs(t, err, errLost)
			}
			require.NoError(t, call.End(t.Context(), http.StatusTooManyRequests, metering.Whole))
			b.balanced(t, requests, 0)
		})
	}
}

func TestCall_CountsRequestIfClientLeaves(t *testing.T) {
	for _, counted := range []bool{false, true} {
		b := openBooks(t, &replies{})
		working, answered := b.begin("working", counted), b.begin("answered", counted)
		_, err := working.Reserve(t.Context(), 1)
		require.NoError(t, err)
		res, err := answered.Reserve(t.Context(), 1)
		require.NoError(t, err)
		_, err = res.Commit(t.Context(), metering.Used{Units: 1})
		require.NoError(t, err)
		require.NoError(t, working.End(t.Context(), http.StatusInternalServerError, metering.Nothing))
		require.NoError(t, answered.End(t.Context(), http.StatusOK, metering.Nothing))
		if !counted {
			b.balanced(t, 0, 0)
			continue
		}
		b.balanced(t, 2, 0)
		for _, u := range b.ledger {
			require.Equal(t, event.OutcomeUnanswered, u.Outcome)
		}
	}
}
