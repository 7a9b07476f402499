package metering

import (
	"sync"
	"time"
)

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
