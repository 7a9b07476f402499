package erasure

import "time"

const (
	defaultWithin   = 24 * time.Hour
	defaultGather   = 300 * time.Millisecond
	defaultReplaced = time.Minute

	// idsPerStatement is the maximum number of ids in one statement: parameters are part of the URL, which is limited.
	idsPerStatement = 500
	// hashesPerStatement is the maximum number of hashes in a DELETE. Each is a synchronous mutation of all parts, so
	// few large statements are faster; 5,000 hashes are 100 kB of the 256 KiB that a statement may have.
	hashesPerStatement = 5000
	// tombstoneBatchSize is the approximate number of tombstones buffered before a write, a few megabytes.
	tombstoneBatchSize = 10_000
	// peoplePerNotice is the number of erased people whose receivers are read at a time, requestsPerNotice that of
	// requests in one notification: 200 kB of the 1 MiB of a delivery.
	peoplePerNotice   = 200
	requestsPerNotice = 5000
	// retryPause is the pause after a failure, which is usually an outage of ClickHouse or Kafka.
	retryPause = 5 * time.Second
	// liveTablesPollInterval is how often the eraser checks whether a replay has swapped the live tables.
	liveTablesPollInterval = 5 * time.Second
	// rewritePollInterval is how often the eraser checks whether replaced parts are removed.
	rewritePollInterval = 2 * time.Second
	// rewriteDuration is the time allowed for a rewrite in addition to the tombstones' lifetime.
	rewriteDuration = 10 * time.Second
)
