package metering

import (
	"sync"
	"time"
)

// forgivenCredits is how many credits an organization does not pay in an hour for answers that broke off: connections
// also break by accident.
const forgivenCredits = 5

// forgiven is what was forgiven in an hour by this replica. The zero value is ready for use.
type forgiven struct {
	mu      sync.Mutex
	hour    time.Time
	credits map[string]int64 // by organization
}

// forgive returns how many of the owed credits an organization need not pay.
func (f *forgiven) forgive(organization string, now time.Time, owed int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if hour := now.Truncate(time.Hour); !hour.Equal(f.hour) {
		f.hour, f.credits = hour, make(map[string]int64)
	}
	n := min(owed, forgivenCredits-f.credits[organization])
	f.credits[organization] += n
	return n
}
