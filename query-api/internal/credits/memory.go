package credits

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// Memory is a [Store] for a single replica. It needs Load once per period.
type Memory struct {
	now func() time.Time

	mu      sync.Mutex
	periods map[string]map[string]*account // by period and organization
}

// maxPeriods is the maximum number of periods in memory: the current one, the previous one with calls in flight, and
// one for tests.
const maxPeriods = 3

// NewMemory returns a store without loaded periods.
func NewMemory(now func() time.Time) *Memory {
	return &Memory{now: now, periods: make(map[string]map[string]*account)}
}

// account is an organization in a period.
type account struct {
	balance Balance
	lines   map[lineKey]*Line
	claims  map[string]*held
	// next is a lower bound of the end of the first lease; zero if there is none.
	next time.Time
}

type lineKey struct{ key, endpoint string }

// held is an unsettled claim.
type held struct {
	requests, credits int64 // reserved, or used after the commit
	calls             int64
	committed         bool
	reverted          bool // the commit was not settled in time
	line              lineKey
	until             time.Time
}

func newAccount() *account {
	return &account{lines: make(map[lineKey]*Line), claims: make(map[string]*held)}
}

// Reserve implements [Store].
func (m *Memory) Reserve(_ context.Context, c Claim) (Balance, error) {
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	a, err := m.account(c)
	if err != nil {
		return Balance{}, err
	}
	a.sweep(now)
	if h := a.claims[c.ID]; h != nil {
		if !h.committed {
			h.until = now.Add(c.Lease)
			a.next = earlier(a.next, h.until)
		}
		return a.balance, nil
	}
	if err := check(c, a.balance); err != nil {
		return a.balance, err
	}
	a.balance.HeldRequests += c.Requests
	a.balance.HeldCredits += c.Credits
	a.hold(c.ID, &held{
		requests: c.Requests, credits: c.Credits, calls: max(1, c.Calls), line: lineKey{c.Key, c.Endpoint},
		until: now.Add(c.Lease),
	})
	return a.balance, nil
}

// Commit implements [Store].
func (m *Memory) Commit(_ context.Context, c Claim, requests, credits int64) (Balance, error) {
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	a, err := m.account(c)
	if err != nil {
		return Balance{}, err
	}
	a.sweep(now)
	h := a.claims[c.ID]
	if h == nil {
		return a.balance, ErrLost
	}
	a.free(h)
	h.requests, h.credits = min(requests, h.requests), min(credits, h.credits)
	h.committed, h.reverted, h.until = true, false, now.Add(commitLease)
	a.next = earlier(a.next, h.until)
	a.use(h, 1)
	return a.balance, nil
}

// Settle implements [Store].
func (m *Memory) Settle(_ context.Context, claims []Claim) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range claims {
		a, err := m.account(c)
		if err != nil {
			continue
		}
		if h := a.claims[c.ID]; h != nil && h.reverted {
			a.use(h, 1)
		}
		delete(a.claims, c.ID)
	}
	return nil
}

// Release implements [Store].
func (m *Memory) Release(_ context.Context, claims []Claim) error { return m.release(claims, true) }

// ReleaseReservations implements [Store].
func (m *Memory) ReleaseReservations(_ context.Context, claims []Claim) error {
	return m.release(claims, false)
}

func (m *Memory) release(claims []Claim, commits bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range claims {
		a, err := m.account(c)
		if err != nil {
			continue
		}
		if h := a.claims[c.ID]; h != nil && (commits || !h.committed) {
			a.drop(c.ID)
		}
	}
	return nil
}

// Usage implements [Store].
func (m *Memory) Usage(_ context.Context, organization, period string) (Totals, error) {
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	a, err := m.account(Claim{Organization: organization, Period: period})
	if err != nil {
		return Totals{}, err
	}
	a.sweep(now)
	t := Totals{Balance: a.balance}
	for _, l := range a.lines {
		if *l != (Line{Key: l.Key, Endpoint: l.Endpoint}) {
			t.Lines = append(t.Lines, *l)
		}
	}
	sortLines(t.Lines)
	return t, nil
}

// Load implements [Store].
func (m *Memory) Load(_ context.Context, period string, balances Balances) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.periods[period] != nil {
		return false, nil
	}
	accounts := make(map[string]*account, len(balances))
	for organization, lines := range balances {
		a := newAccount()
		for _, l := range lines {
			a.balance.Requests += l.Requests
			a.balance.Credits += l.Credits
			*a.line(lineKey{l.Key, l.Endpoint}) = l
		}
		accounts[organization] = a
	}
	m.periods[period] = accounts
	for len(m.periods) > maxPeriods {
		oldest := ""
		for p := range m.periods {
			if oldest == "" || p < oldest {
				oldest = p
			}
		}
		delete(m.periods, oldest)
	}
	return true, nil
}

// account returns the account of a claim. m.mu must be held.
func (m *Memory) account(c Claim) (*account, error) {
	accounts := m.periods[c.Period]
	if accounts == nil {
		return nil, ErrNotLoaded
	}
	a := accounts[c.Organization]
	if a == nil {
		a = newAccount()
		accounts[c.Organization] = a
	}
	return a, nil
}

func (a *account) hold(id string, h *held) {
	a.claims[id] = h
	a.next = earlier(a.next, h.until)
}

// earlier returns the earlier of two times; a zero a is ignored.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// use adds a commit to the balance, or removes it if sign is -1.
func (a *account) use(h *held, sign int64) {
	a.balance.Requests += sign * h.requests
	a.balance.Credits += sign * h.credits
	l := a.line(h.line)
	l.Calls += sign * h.calls
	l.Requests += sign * h.requests
	l.Credits += sign * h.credits
}

func (a *account) line(k lineKey) *Line {
	l := a.lines[k]
	if l == nil {
		l = &Line{Key: k.key, Endpoint: k.endpoint}
		a.lines[k] = l
	}
	return l
}

// drop removes a claim and frees its reservation or commit.
func (a *account) drop(id string) {
	h := a.claims[id]
	if h == nil {
		return
	}
	delete(a.claims, id)
	a.free(h)
}

// free removes a reservation or commit from the balance.
func (a *account) free(h *held) {
	switch {
	case h.reverted:
		return
	case h.committed:
		a.use(h, -1)
		return
	}
	a.balance.HeldRequests -= h.requests
	a.balance.HeldCredits -= h.credits
}

// sweep ends expired leases. Reverted commits are kept, since they may still be settled.
func (a *account) sweep(now time.Time) {
	if a.next.IsZero() || now.Before(a.next) {
		return
	}
	a.next = time.Time{}
	for id, h := range a.claims {
		switch {
		case h.reverted:
			continue
		case now.Before(h.until):
			a.next = earlier(a.next, h.until)
		case h.committed:
			a.free(h)
			h.reverted = true
		default:
			a.drop(id)
		}
	}
}

func sortLines(lines []Line) {
	slices.SortFunc(lines, func(a, b Line) int {
		return cmp.Or(cmp.Compare(a.Endpoint, b.Endpoint), cmp.Compare(a.Key, b.Key))
	})
}
