// Package heaptest measures the memory use of functions, for tests with hostile input.
package heaptest

import (
	"runtime"
	"time"
)

// Allocated runs f and returns the total number of bytes it allocated.
func Allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Peak runs f and returns the increase of the heap in use while it ran, in bytes. Collections are
// triggered only by f's own allocations.
func Peak(f func()) uint64 {
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	stop, peak := make(chan struct{}), make(chan uint64)
	go func() {
		var highest uint64
		for {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			highest = max(highest, now.HeapInuse)
			select {
			case <-stop:
				peak <- highest
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	f()
	close(stop)
	highest := <-peak
	return highest - min(highest, before.HeapInuse)
}
