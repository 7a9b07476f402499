//go:build bulk

package e2e_test

import (
	"bytes"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/query-api/client"
)

// The throughput of a job beside that of the plain endpoint with 32 callers, in one process and with the same rows.
// MUSTER_E2E_BULK_RATIO is the required ratio in percent.
func TestBulk_ThroughputIsNearThatOfThePlainEndpoint(t *testing.T) {
	percent := number(t, "MUSTER_E2E_BULK_RATIO", 70)
	p := start(t, newDataDir(t), "--no-sample")
	const people = 20_000
	bulkWorld(t, p, people)
	const rows = 20_000
	plain := func() float64 {
		var next atomic.Int64
		var callers sync.WaitGroup
		began := time.Now()
		a := p.api()
		a.bulk = new(atomic.Int64)
		a.bulk.Store(1) // few are validated
		for range 32 {
			callers.Go(func() {
				for {
					i := next.Add(1)
					if i > rows {
						return
					}
					body, _ := json.Marshal(map[string]string{"codehost": fmt.Sprintf("user%d", i%people)})
					got, err := a.do(t.Context(), http.MethodPost, "/v1/person/enrich", nil, body)
					if err != nil || got.status != http.StatusOK {
						t.Errorf("%v %d %s", err, got.status, got.body)
						return
					}
				}
			})
		}
		callers.Wait()
		return rows / time.Since(began).Seconds()
	}
	job := func() float64 {
		var upload bytes.Buffer
		for i := range rows {
			fmt.Fprintf(&upload, "{\"codehost\":\"user%d\"}\n", i%people)
		}
		api := bulkClient(t, p)
		began := time.Now()
		accepted, err := api.SubmitBulk(t.Context(), upload.Bytes(), client.BulkOptions{
			Operation: client.BulkOperationPersonEnrich,
		})
		require.NoError(t, err)
		for {
			state, err := api.GetBulk(t.Context(), accepted.Value.JobID)
			require.NoError(t, err)
			if state.Value.Status == client.BulkJobStatusDone {
				return rows / time.Since(began).Seconds()
			}
			<-time.After(50 * time.Millisecond)
		}
	}
	plain() // caches are warm
	first, got, second := plain(), job(), plain()
	ratio := got / ((first + second) / 2)
	t.Logf("plain endpoint, 32 callers: %.0f and %.0f rows/s; job: %.0f rows/s, %.2f times", first, second, got, ratio)
	require.GreaterOrEqual(t, ratio, float64(percent)/100)
	p.stop(t)
}
