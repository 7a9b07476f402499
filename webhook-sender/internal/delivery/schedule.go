package delivery

import "time"

const (
	// MaxAge is how old a delivery may get. Its task, with the body, is kept for
	// seven days.
	MaxAge = 6 * 24 * time.Hour
	// jitter is the part by which a delay may be longer or shorter.
	jitter = 0.2
	// retries is how often a failed delivery is tried again.
	retries = 9
)

// delays are those after the first, second, ... failure (Standard Webhooks 1.0.0,
// "Retry schedule").
func delays() [retries]time.Duration {
	return [...]time.Duration{
		5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
		10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
	}
}

// NextDelay is the pause after a number of failed attempts: the schedule's, spread
// by random in [0, 1), or what Retry-After asks for when that is later. ok is
// false when there is no further attempt.
func NextDelay(attempts int, retryAfter time.Duration, random float64) (d time.Duration, ok bool) {
	all := delays()
	if attempts < 1 || attempts > len(all) {
		return 0, false
	}
	d = all[attempts-1]
	d += time.Duration((2*random - 1) * jitter * float64(d))
	return max(d, retryAfter), true
}
