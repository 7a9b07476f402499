package ingest_test

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/ingest"
)

// The rate used to be that of the last acknowledged batches: 1,222 per second in a run that read 8,271.
func TestProgress_RateIsRecordsByTimeSinceTheStart(t *testing.T) {
	var log, terminal bytes.Buffer
	lines := ingest.NewLog(slog.New(slog.NewTextHandler(&log, nil)), time.Second)
	bar := ingest.NewBar(&terminal)
	for _, s := range []ingest.Snapshot{
		{StoredSize: 100, StoredBytes: 1, Read: 10_000, Elapsed: 500 * time.Millisecond, ReadBefore: 4000},
		{StoredSize: 100, StoredBytes: 50, Read: 20_000, Published: 200, Elapsed: 2 * time.Second, ReadBefore: 4000},
		{StoredSize: 100, StoredBytes: 90, Read: 28_000, Published: 300, Elapsed: 3 * time.Second, ReadBefore: 4000},
	} {
		lines.Update(s)
		bar.Update(s)
	}
	bar.Finish(
		ingest.Snapshot{StoredSize: 100, StoredBytes: 100, Read: 36_000, Elapsed: 4 * time.Second, ReadBefore: 4000},
	)
	require.Contains(t, log.String(), "records_per_second=8000")
	require.NotContains(t, log.String(), "records_per_second=100")
	for _, want := range []string{"10,000 records, 12,000/s", "20,000 records, 8,000/s", "36,000 records, 8,000/s"} {
		require.Contains(t, terminal.String(), want)
	}
}
