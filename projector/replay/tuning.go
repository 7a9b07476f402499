package replay

import "time"

const (
	defaultSliceRows     = 2_000_000
	defaultFreezeTimeout = 30 * time.Second

	// pollInterval is how often a replay checks its progress; inserts are paused while it waits for the last records.
	pollInterval = 10 * time.Millisecond
	// catchUpTolerance is the lag at which a replay counts as caught up; the rest is replayed while inserts are
	// paused.
	catchUpTolerance = time.Second
	// maxPauses is how often inserts are paused to replay the last records, before the replay fails.
	maxPauses = 5
	// resumeTimeout bounds the attempt to resume inserts after a failure.
	resumeTimeout = 10 * time.Second
	// minSlices is the minimum number of slices in which a table is compared, so that progress is visible.
	minSlices = 8
	// maxAnswerAttempts and answersRetryInterval allow concurrent inserts half a minute to have their answers built.
	maxAnswerAttempts    = 60
	answersRetryInterval = 500 * time.Millisecond
)
