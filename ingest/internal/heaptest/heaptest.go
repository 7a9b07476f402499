// Package heaptest measures what reading hostile input takes of memory.
package heaptest

import (
	"runtime"
	"time"
)

// Allocated runs f and returns how many bytes it took from the heap in all.
func Allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Peak runs f and returns by how many bytes the heap in use was larger while it ran than before, as seen between
// collections that f's own allocations trigger.
func Peak(f func()) uint64 {
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	stop, peak := make(chan struct{}), make(chan uint64)
	go func() {
		var most uint64
		for {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapInuse)
			select {
			case <-stop:
				peak <- most
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	f()
	close(stop)
	most := <-peak
	return most - min(most, before.HeapInuse)
}
