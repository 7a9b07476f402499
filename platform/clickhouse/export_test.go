package clickhouse

import "time"

// WithLockTiming shortens the lock's times for tests.
func (cfg MigrateConfig) WithLockTiming(expiry, renewal, poll time.Duration) MigrateConfig {
	cfg.timing = lockTiming{expiry: expiry, renewal: renewal, poll: poll}
	return cfg
}
