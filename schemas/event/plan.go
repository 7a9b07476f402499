package event

import (
	"errors"
	"fmt"
)

// Names of the built-in plans.
const (
	PlanDefault = "default"
	// PlanDevelopment is the plan of `muster up`, practically without limits.
	PlanDevelopment = "development"
)

// MaxRequestsPerMinute is the maximum rate of a plan: a thousand per millisecond.
const MaxRequestsPerMinute = 60_000_000

// maxMonthly is the maximum of monthly limits, so that sums do not overflow.
const maxMonthly = 1_000_000_000_000

// SearchPrice is the price of a search result in credits. It is the same for all plans (interface.md, person
// search, rule 3).
const SearchPrice = 1

// Limits are the limits of a plan (rulings.md, Accounts, limits and charges).
type Limits struct {
	// RequestsPerMinute is the rate limit of each key.
	RequestsPerMinute int64 `json:"requests_per_minute"`
	// MonthlyRequests limits the calls of the enrichment endpoints, Credits the cost of all calls, per
	// calendar month in UTC.
	MonthlyRequests int64  `json:"monthly_requests"`
	Credits         int64  `json:"credits"`
	Prices          Prices `json:"prices"`
}

// Prices are in credits: for a matched call, a result, a record or a profile (rulings.md, Accounts, limits
// and charges). Zero is free. Search always costs SearchPrice, whatever an older plan states: see
// [Organization.LimitsOf].
type Prices struct {
	PersonEnrich  int64 `json:"person_enrich"`
	CompanyEnrich int64 `json:"company_enrich"`
	Search        int64 `json:"search"`
	Discover      int64 `json:"discover"`
	Webset        int64 `json:"webset"`
	Context       int64 `json:"context"`
}

// DefaultLimits returns the limits of plans without limits of their own.
func DefaultLimits() Limits {
	return Limits{
		RequestsPerMinute: 300, MonthlyRequests: 10_000, Credits: 10_000,
		Prices: Prices{PersonEnrich: 1, CompanyEnrich: 1, Search: SearchPrice, Discover: 1, Webset: 1, Context: 1},
	}
}

// PlanLimits returns the limits of a built-in plan; ok is false for other names.
func PlanLimits(plan string) (limits Limits, ok bool) {
	limits = DefaultLimits()
	switch plan {
	case PlanDefault, "":
		return limits, true
	case PlanDevelopment:
		limits.RequestsPerMinute = MaxRequestsPerMinute
		limits.MonthlyRequests, limits.Credits = 1_000_000_000, 1_000_000_000
		return limits, true
	}
	return limits, false
}

// Validate returns an error if a limit is invalid.
func (l Limits) Validate() error {
	if l.RequestsPerMinute < 1 || l.RequestsPerMinute > MaxRequestsPerMinute {
		return fmt.Errorf("requests_per_minute is %d: must be 1 to %d", l.RequestsPerMinute, MaxRequestsPerMinute)
	}
	for _, n := range []struct {
		name  string
		value int64
	}{{"monthly_requests", l.MonthlyRequests}, {"credits", l.Credits}} {
		if n.value < 0 || n.value > maxMonthly {
			return fmt.Errorf("%s is %d: must be 0 to %d", n.name, n.value, int64(maxMonthly))
		}
	}
	p := l.Prices
	for _, price := range []int64{p.PersonEnrich, p.CompanyEnrich, p.Search, p.Discover, p.Webset, p.Context} {
		if price < 0 || price > 1_000_000 {
			return errors.New("a price is negative, or more than 1000000 credits")
		}
	}
	return nil
}

// LimitsOf returns the effective limits of the organization: its own, or those of its built-in plan, or the
// defaults.
func (o Organization) LimitsOf() Limits {
	limits, _ := PlanLimits(o.Plan)
	if o.Limits != nil {
		limits = *o.Limits
	}
	limits.Prices.Search = SearchPrice
	return limits
}
