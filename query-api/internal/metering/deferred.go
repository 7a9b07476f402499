package metering

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"muster/query-api/internal/credits"
	"muster/schemas/event"
)

// DeferredCharge is the charge of a call whose work finished after it was accepted, possibly in
// another process and after the client left.
type DeferredCharge struct {
	RequestID, Organization, Key, Plan string
	Method, Endpoint                   string
	// At is when the call came, which determines its period. Done is when its work was finished.
	At, Done time.Time
	// Credits is the price, at most what was reserved; 0 is free. Requests counts as monthly requests.
	Credits, Requests int64
	// Used is what was returned; its units are ignored.
	Used Used
}

// maxCharged is the maximum number of remembered charges. Older ones are looked up in the ledger.
const maxCharged = 50_000

// chargedCalls is the set of calls charged by this process.
type chargedCalls struct {
	ids   map[string]bool
	order []string
}

func (p *chargedCalls) add(id string) {
	if p.ids == nil {
		p.ids = make(map[string]bool)
	}
	if p.ids[id] {
		return
	}
	p.ids[id] = true
	if p.order = append(p.order, id); len(p.order) > maxCharged {
		delete(p.ids, p.order[0])
		p.order = p.order[1:]
	}
}

func (o *DeferredCharge) claim() credits.Claim {
	return credits.Claim{
		ID: o.RequestID, Organization: o.Organization, Period: event.PeriodOf(o.At), Key: o.Key, Endpoint: o.Endpoint,
		Credits: o.Credits, RequestLimit: unlimited, CreditLimit: unlimited, Lease: time.Minute,
	}
}

// Charge charges a deferred call in the balance and the ledger, once per request ID across repeated
// calls and replicas. The usage event is durable when it returns.
func (m *Meter) Charge(ctx context.Context, o DeferredCharge) error {
	// Serialized: a waiting request and the consumer may charge the same call.
	m.charging.Lock()
	defer m.charging.Unlock()
	if m.charged.ids[o.RequestID] {
		return nil
	}
	claim := o.claim()
	_, err := loaded(ctx, m, claim.Period,
		func() (credits.Balance, error) { return m.credits.Commit(ctx, claim, 0, o.Credits) })
	if errors.Is(err, credits.ErrLost) {
		// The reservation has ended or was lost in a crash, or the call is already charged and settled.
		charged, err := m.inLedger(ctx, o.Organization, claim.Period, []string{o.RequestID})
		if err != nil {
			return unavailable(err)
		}
		if charged[o.RequestID] {
			m.charged.add(o.RequestID)
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
	if err := m.ledger.Record(m.deferredEvent(&o)); err != nil {
		return unavailable(fmt.Errorf("record a charge: %w", err))
	}
	// Other replicas receive the same result and check the ledger.
	m.ledger.FlushAsync()
	m.charged.add(o.RequestID)
	return nil
}

// SetDeferredCharge sets the charge that the response of this call states; [Meter.Charge] applies
// it.
func (c *Call) SetDeferredCharge(credits int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owed = credits
}

// hourlyAllowance is the credits per organization and hour that are not charged for responses that broke off:
// connections also break by accident.
const hourlyAllowance = 5

// allowances is the allowances that this replica granted in the current hour. The zero value is ready for use.
type allowances struct {
	mu      sync.Mutex
	hour    time.Time
	credits map[string]int64 // by organization
}

// grant returns how many of the owed credits are not charged.
func (f *allowances) grant(organization string, now time.Time, owed int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if hour := now.Truncate(time.Hour); !hour.Equal(f.hour) {
		f.hour, f.credits = hour, make(map[string]int64)
	}
	n := min(owed, hourlyAllowance-f.credits[organization])
	f.credits[organization] += n
	return n
}
