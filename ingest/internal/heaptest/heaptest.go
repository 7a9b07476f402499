// Package heaptest measures what reading hostile input takes of memory.
package heaptest

import "runtime"

// Allocated runs f and returns how many bytes it took from the heap in all.
func Allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
