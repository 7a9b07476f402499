package clickhouse

import "time"

// WithLockTiming shortens the lock's times for tests.
func (cfg MigrateConfig) WithLockTiming(expiry, renewal, poll time.Duration) MigrateConfig {
	cfg.timing = defaultLockTiming()
	cfg.timing.expiry, cfg.timing.renewal, cfg.timing.poll = expiry, renewal, poll
	return cfg
}

// WithReports makes a holder tell more often what it is at.
func (cfg MigrateConfig) WithReports(every time.Duration) MigrateConfig {
	cfg.timing = defaultLockTiming()
	cfg.timing.report = every
	return cfg
}
