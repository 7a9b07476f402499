package searchsink

import "time"

const (
	// maxTouchAge is how long touches are batched. With the refresh interval of a second, it is most of the time from a
	// record to a hit.
	maxTouchAge = 200 * time.Millisecond
	// maxTouches bounds a batch of touches.
	maxTouches = 10_000
	// rowsAtOnce is the number of rows read in one statement, and documents in one bulk request.
	rowsAtOnce = 1000
	// maxBulkBytes bounds a bulk request; OpenSearch accepts 100 MB, and recommends 5 to 15.
	maxBulkBytes = 5 << 20
	// bulkTimeout bounds a bulk request. It is much less than gc_deletes of the index: a later write than that could
	// restore a deleted document.
	bulkTimeout = time.Minute
	// firstRetry and longestRetry bound the pause before items that OpenSearch was too busy for are sent again.
	firstRetry, longestRetry = 100 * time.Millisecond, 10 * time.Second
	// laggingFor is how long rows are read again that are older than the touched ones, on a cluster.
	laggingFor = time.Minute
	// lagRetryInterval is the interval of these attempts.
	lagRetryInterval = time.Second
	// ensureInterval is the interval of attempts to create the index.
	ensureInterval = 5 * time.Second
	// verifyFor is how long differences between a new index and the table may last: documents are written meanwhile.
	verifyFor = 2 * time.Minute
	// maxSuspects bounds the differences that are compared again.
	maxSuspects = 100_000
	// hitsAtOnce is the number of documents read in one request; 10,000 is OpenSearch's limit.
	hitsAtOnce = 5000
	// mergeTimeout bounds a request that merges segments; the merge goes on after it.
	mergeTimeout = 10 * time.Minute
)
