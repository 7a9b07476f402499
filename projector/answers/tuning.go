package answers

import "time"

const (
	// largeAccount is the row count above which an account is built separately, at most once per Config.LargeAge: one
	// build of an account of that size takes as long as hundreds of usual ones.
	largeAccount = 5000
	// maxTouchAge is how long touches are batched. Small builds are dominated by fixed cost: 470 accounts take 0.25 s,
	// 2,350 take 0.5 s.
	maxTouchAge = 100 * time.Millisecond
	// BuildAccounts and buildRows bound one statement, and so the engine's memory for it.
	BuildAccounts = 2000
	buildRows     = 100_000
	// statesAtOnce is the number of accounts whose states are read in one statement.
	statesAtOnce = 10 * BuildAccounts
	// laggingFor is how long a build is retried that read older rows than the touched ones; replicas usually lag by
	// less than a second.
	laggingFor = time.Minute
	// lagRetryInterval is the interval of these attempts.
	lagRetryInterval = time.Second
	// ScanSlice is the number of accounts compared with their rows at a time, which bounds the engine's memory for it.
	ScanSlice = 20_000
	// scanAfter is the delay of the first comparison, and of the next one after a failure or while builds are pending.
	scanAfter = 10 * time.Second
	// scanEvery is the interval of comparisons, which only find what lost touches have left.
	scanEvery = time.Hour
)
