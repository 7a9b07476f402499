package event

import (
	"errors"
	"fmt"
)

// Names of the plans that are built in.
const (
	PlanDefault = "default"
	// PlanDevelopment is that of `muster up`: practically without limits.
	PlanDevelopment = "development"
)

// MaxRequestsPerMinute bounds a plan's rate: a thousand a millisecond.
const MaxRequestsPerMinute = 60_000_000

// maxMonthly bounds counts of a month, so that sums of them stay far from
// overflowing.
const maxMonthly = 1_000_000_000_000

// SearchPrice is what a search result costs, in credits. No plan changes it (interface.md, person search, rule 3).
const SearchPrice = 1

// Limits are the numbers of a plan (rulings.md, Accounts, limits and charges).
type Limits struct {
	// RequestsPerMinute is the rate of each key.
	RequestsPerMinute int64 `json:"requests_per_minute"`
	// MonthlyRequests bounds the calls of the enrichment endpoints, Credits what
	// all calls together may cost, in a calendar month of UTC.
	MonthlyRequests int64  `json:"monthly_requests"`
	Credits         int64  `json:"credits"`
	Prices          Prices `json:"prices"`
}

// Prices are in credits: for a matched call, a result, a record or a profile
// (rulings.md, Accounts, limits and charges). Zero is free. Search is SearchPrice, whatever
// a plan of before says: see [Organization.LimitsOf].
type Prices struct {
	PersonEnrich  int64 `json:"person_enrich"`
	CompanyEnrich int64 `json:"company_enrich"`
	Search        int64 `json:"search"`
	Discover      int64 `json:"discover"`
	Webset        int64 `json:"webset"`
	Context       int64 `json:"context"`
}

// DefaultLimits are those of a plan whose numbers nobody has set.
func DefaultLimits() Limits {
	return Limits{
		RequestsPerMinute: 300, MonthlyRequests: 10_000, Credits: 10_000,
		Prices: Prices{PersonEnrich: 1, CompanyEnrich: 1, Search: SearchPrice, Discover: 1, Webset: 1, Context: 1},
	}
}

// PlanLimits are the numbers of a built-in plan; ok is false for another name.
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

// Validate reports what makes the numbers unusable.
func (l Limits) Validate() error {
	if l.RequestsPerMinute < 1 || l.RequestsPerMinute > MaxRequestsPerMinute {
		return fmt.Errorf("requests_per_minute is %d: give 1 to %d", l.RequestsPerMinute, MaxRequestsPerMinute)
	}
	for _, n := range []struct {
		name  string
		value int64
	}{{"monthly_requests", l.MonthlyRequests}, {"credits", l.Credits}} {
		if n.value < 0 || n.value > maxMonthly {
			return fmt.Errorf("%s is %d: give 0 to %d", n.name, n.value, int64(maxMonthly))
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

// LimitsOf are the numbers that hold for the organization: its own, or those of
// the built-in plan of its plan's name, or the default ones.
func (o Organization) LimitsOf() Limits {
	limits, _ := PlanLimits(o.Plan)
	if o.Limits != nil {
		limits = *o.Limits
	}
	limits.Prices.Search = SearchPrice
	return limits
}
