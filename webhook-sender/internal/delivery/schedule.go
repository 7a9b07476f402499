package delivery

import "time"

const (
	// MaxAge is the maximum age of a delivery. Tasks are retained for seven days.
	MaxAge = 6 * 24 * time.Hour
	// jitterFraction is the maximum relative deviation of a delay.
	jitterFraction = 0.2
	// maxRetries is the number of retries after the first attempt.
	maxRetries = 9
)

// retryDelays returns the delays after the first, second, and later failures (Standard Webhooks
// 1.0.0, "Retry schedule").
func retryDelays() [maxRetries]time.Duration {
	return [...]time.Duration{
		5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
		10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
	}
}

// NextDelay returns the delay after the given number of failed attempts: the scheduled one with
// jitter, or retryAfter if that is longer. random is in [0, 1). ok is false if there is no further
// attempt.
func NextDelay(attempts int, retryAfter time.Duration, random float64) (d time.Duration, ok bool) {
	all := retryDelays()
	if attempts < 1 || attempts > len(all) {
		return 0, false
	}
	d = all[attempts-1]
	d += time.Duration((2*random - 1) * jitterFraction * float64(d))
	return max(d, retryAfter), true
}
