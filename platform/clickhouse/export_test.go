package clickhouse

import "time"

// WithLockTiming returns cfg with a faster lock, for tests.
func (cfg MigrateConfig) WithLockTiming(expiry, renewal, poll time.Duration) MigrateConfig {
	cfg.timing = defaultLockTiming()
	cfg.timing.expiry, cfg.timing.renewal, cfg.timing.poll = expiry, renewal, poll
	return cfg
}

// WithReportInterval returns cfg with progress logged at the given interval.
func (cfg MigrateConfig) WithReportInterval(every time.Duration) MigrateConfig {
	cfg.timing = defaultLockTiming()
	cfg.timing.report = every
	return cfg
}
