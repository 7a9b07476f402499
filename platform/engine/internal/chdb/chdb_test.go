package chdb_test

import (
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/platform/engine"
	"muster/platform/engine/internal/chdb"
)

// It is one test, because a process loads the library and starts the engine only once.
func TestLibrary_QueriesStreamsInsertsAndClassifies(t *testing.T) {
	path, err := engine.EnsureLibrary(t.Context(), engine.LibraryConfig{})
	require.NoError(t, err)
	lib, err := chdb.Open(path)
	require.NoError(t, err)
	require.Equal(t, "26.7.3", lib.Version())
	dir := t.TempDir()
	conn, err := lib.Connect("--path=" + dir)
	require.NoError(t, err)
	defer conn.Close()
	other, err := lib.Connect("--path="+dir, "--max_threads=3")
	require.NoError(t, err)
	defer other.Close()
	_, err = lib.Connect("--path="+dir, "--max_threads=x")
	require.Error(t, err)

	// The Go runtime's signal handlers are restored: a fault is a panic, and a loop without calls can be preempted.
	require.NotPanics(t, func() {
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		defer func() { require.NotNil(t, recover()) }()
		var p *int
		*p = 1 //nolint:govet // the fault is what is tested
	})
	stop := time.After(50 * time.Millisecond)
	spinning := make(chan struct{})
	go func() {
		defer close(spinning)
		for i := 0; i < 1<<30; i++ {
		}
	}()
	<-stop
	<-spinning

	params := []chdb.Param{{Name: "v", Value: "a\x00b"}}
	r, err := other.Query("SELECT getSetting('max_threads'), {v:String}", "TSV", params)
	require.NoError(t, err)
	require.Equal(t, "3\ta\\0b\n", string(r.Bytes()))
	require.Equal(t, uint64(1), r.Stats().ResultRows)
	r.Close()

	_, err = conn.Query("SELECT * FROM nowhere", "TSV", nil)
	var e *chdb.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, 60, e.Code)
	require.Equal(t, "UNKNOWN_TABLE", e.Name)

	require.NoError(t, conn.Exec("CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a"))
	insert, err := conn.Insert("INSERT INTO t", "TSV", nil)
	require.NoError(t, err)
	require.NoError(t, insert.Append([]byte("1\n2")))
	require.NoError(t, insert.Append([]byte("2\n3\n")))
	stats, err := insert.Done()
	require.NoError(t, err)
	require.Equal(t, uint64(3), stats.WrittenRows)
	insert.Close()
	insert, err = conn.Insert("INSERT INTO t", "TSV", nil)
	require.NoError(t, err)
	require.NoError(t, insert.Append([]byte("4\n")))
	insert.Close() // without Done: nothing is stored

	stream, err := other.Stream("SELECT a FROM t ORDER BY a", "TSV", nil)
	require.NoError(t, err)
	var got string
	for {
		part, err := stream.Next()
		require.NoError(t, err)
		if part == nil {
			break
		}
		got += string(part.Bytes())
		part.Close()
	}
	stream.Close()
	require.Equal(t, "1\n3\n22\n", got)

	for query, want := range map[string]chdb.Analysis{
		"SELECT 1":                    {Statements: 1, Class: chdb.ReadOnly},
		"INSERT INTO t VALUES (1)":    {Statements: 1, Class: chdb.Mutating},
		"CREATE FUNCTION f AS x -> x": {Statements: 1, Class: chdb.MutatingGlobal},
		"SET a = 1":                   {Statements: 1, Class: chdb.Control},
		"SELECT 1; DROP TABLE t":      {Statements: 2, Class: chdb.Mutating},
		"SELEC 1 2":                   {Class: chdb.Unknown},
	} {
		got, err := conn.Classify(query)
		require.NoError(t, err)
		require.Equal(t, want, got, query)
	}
}
