package metering

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"muster/query-api/internal/credits"
	"muster/schemas/event"
)

// Owed is what a call owes whose work was finished after it was accepted, perhaps
// by another process, perhaps after its caller had left.
type Owed struct {
	RequestID, Organization, Key, Plan string
	Method, Endpoint                   string
	// At is when the call came: it counts in that period. Done is when its work was
	// finished.
	At, Done time.Time
	// Credits is what it costs, no more than was reserved; 0 is free.
	Credits int64
	// Used says what was returned; its units do not count.
	Used Used
}

// maxPaid bounds the calls of which is remembered that they are paid. Beyond it
// the ledger is asked.
const maxPaid = 50_000

// paid remembers what was charged here.
type paid struct {
	ids   map[string]bool
	order []string
}

func (p *paid) add(id string) {
	if p.ids == nil {
		p.ids = make(map[string]bool)
	}
	if p.ids[id] {
		return
	}
	p.ids[id] = true
	if p.order = append(p.order, id); len(p.order) > maxPaid {
		delete(p.ids, p.order[0])
		p.order = p.order[1:]
	}
}

func (o *Owed) claim() credits.Claim {
	return credits.Claim{
		ID: o.RequestID, Organization: o.Organization, Period: event.PeriodOf(o.At), Key: o.Key, Endpoint: o.Endpoint, Credits: o.Credits,
		// The call was accepted within the limits: it is charged whatever has happened since.
		RequestLimit: math.MaxInt64 / 4, CreditLimit: math.MaxInt64 / 4, Lease: time.Minute,
	}
}

// Charge brings what is owed to the balance and to the ledger, once for each
// request id however often it is called and by how many replicas. The usage event is
// durable when it returns.
func (m *Meter) Charge(ctx context.Context, o Owed) error {
	m.owing.Lock() // one at a time: the same call may be owed by a waiting caller and by the consumer
	defer m.owing.Unlock()
	if m.paid.ids[o.RequestID] {
		return nil
	}
	claim := o.claim()
	_, err := loaded(ctx, m, claim.Period, func() (credits.Balance, error) { return m.credits.Commit(ctx, claim, 0, o.Credits) })
	if errors.Is(err, credits.ErrLost) {
		// Its reservation has ended, was lost in a crash, or is settled: it was charged.
		has, err := m.has(ctx, o.Organization, claim.Period, o.RequestID)
		if err != nil {
			return unavailable(err)
		}
		if has {
			m.paid.add(o.RequestID)
			return nil
		}
		if _, err := m.reserve(ctx, claim); err != nil {
			return unavailable(err)
		}
		if _, err = m.credits.Commit(ctx, claim, 0, o.Credits); err != nil {
			return unavailable(err)
		}
	} else if err != nil {
		return unavailable(err)
	}
	u := event.Usage{
		RequestID: o.RequestID, OrganizationID: o.Organization, KeyID: o.Key, At: o.At.UTC(), Period: claim.Period,
		Method: o.Method, Endpoint: o.Endpoint, Status: http.StatusOK, Outcome: event.OutcomeFree, Plan: o.Plan,
		Credits: o.Credits, DurationMicros: o.Done.Sub(o.At).Microseconds(), Returned: m.hashes.Hashes(o.Used.Identities), Groups: o.Used.Groups,
	}
	if o.Credits > 0 {
		u.Outcome = event.OutcomeCharged
	}
	if err := m.ledger.Record(&u); err != nil {
		return unavailable(fmt.Errorf("record a charge: %w", err))
	}
	m.ledger.Hurry() // other replicas see the same outcome, and ask the ledger
	m.paid.add(o.RequestID)
	return nil
}

// Forgive gives back what is reserved for a call that failed.
func (m *Meter) Forgive(ctx context.Context, o Owed) error {
	err := m.credits.Release(ctx, []credits.Claim{o.claim()})
	if err != nil && !errors.Is(err, credits.ErrNotLoaded) {
		return unavailable(err)
	}
	return nil
}

// Owes notes what the answer of this call says it is charged, which [Meter.Charge]
// does.
func (c *Call) Owes(credits int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owed = credits
}
