package service_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/platform/service"
)

func TestKeepHeap_MakesCollectionsRare(t *testing.T) {
	collections := func() uint32 {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 256 << 10 {
			garbage = make([]byte, 1<<10)
		}
		runtime.ReadMemStats(&after)
		return after.NumGC - before.NumGC
	}
	usual := collections()
	release := service.KeepHeap()
	defer release()
	require.Less(t, collections(), usual/2, "256 MiB of garbage take at most four collections, %d without it", usual)
}

var garbage []byte // escapes to the heap
