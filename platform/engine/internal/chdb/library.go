package chdb

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Library is libchdb loaded into this process.
type Library struct {
	fn      functions
	signals *signalKeeper
	connect sync.Mutex // connecting changes process-wide signal handlers
}

// functions are the bound C functions. Handles are opaque pointers; sizes are size_t.
type functions struct {
	version           func() unsafe.Pointer
	setSignalHandlers func(enabled int32)
	connect           func(argc int32, argv unsafe.Pointer) unsafe.Pointer
	closeConn         func(conn unsafe.Pointer)

	queryWithParams func(conn, query unsafe.Pointer, queryLen uintptr, format unsafe.Pointer, formatLen uintptr,
		names, nameLens, values, valueLens unsafe.Pointer, count uintptr) unsafe.Pointer
	streamWithParams func(conn, query unsafe.Pointer, queryLen uintptr, format unsafe.Pointer, formatLen uintptr,
		names, nameLens, values, valueLens unsafe.Pointer, count uintptr) unsafe.Pointer
	insertWithParams func(conn, query unsafe.Pointer, queryLen uintptr, format unsafe.Pointer, formatLen uintptr,
		names, nameLens, values, valueLens unsafe.Pointer, count uintptr) unsafe.Pointer

	streamFetch   func(conn, stream unsafe.Pointer) unsafe.Pointer
	streamCancel  func(conn, stream unsafe.Pointer)
	destroyResult func(result unsafe.Pointer)

	insertAppend  func(stream, data unsafe.Pointer, n uintptr) int32
	insertDone    func(stream unsafe.Pointer) unsafe.Pointer
	insertError   func(stream unsafe.Pointer) unsafe.Pointer
	destroyInsert func(stream unsafe.Pointer)

	resultBuffer       func(result unsafe.Pointer) unsafe.Pointer
	resultLength       func(result unsafe.Pointer) uintptr
	resultError        func(result unsafe.Pointer) unsafe.Pointer
	resultRows         func(result unsafe.Pointer) uint64
	resultBytes        func(result unsafe.Pointer) uint64
	resultStorageRows  func(result unsafe.Pointer) uint64
	resultStorageBytes func(result unsafe.Pointer) uint64
	resultRowsWritten  func(result unsafe.Pointer) uint64
	resultBytesWritten func(result unsafe.Pointer) uint64

	classify func(conn, query unsafe.Pointer, queryLen uintptr,
		database unsafe.Pointer, databaseLen uintptr, out unsafe.Pointer) int32
}

// Open loads the shared library at path into the process. It must be called only once; the library is never unloaded.
func Open(path string) (*Library, error) {
	signals, err := saveSignals()
	if err != nil {
		return nil, err
	}
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if restoreErr := signals.restore(); restoreErr != nil {
		return nil, restoreErr
	}
	if err != nil {
		return nil, fmt.Errorf("chdb: load %s: %w", path, err)
	}
	l := &Library{signals: signals}
	f := &l.fn
	for _, bind := range []struct {
		target any
		symbol string
	}{
		{&f.version, "chdb_version"},
		{&f.setSignalHandlers, "chdb_set_signal_handlers_enabled"},
		{&f.connect, "chdb_connect"},
		{&f.closeConn, "chdb_close_conn"},
		{&f.queryWithParams, "chdb_query_with_params_n"},
		{&f.streamWithParams, "chdb_stream_query_with_params_n"},
		{&f.insertWithParams, "chdb_stream_insert_with_params_n"},
		{&f.streamFetch, "chdb_stream_fetch_result"},
		{&f.streamCancel, "chdb_stream_cancel_query"},
		{&f.destroyResult, "chdb_destroy_query_result"},
		{&f.insertAppend, "chdb_stream_append"},
		{&f.insertDone, "chdb_stream_done"},
		{&f.insertError, "chdb_stream_insert_error"},
		{&f.destroyInsert, "chdb_destroy_insert_stream"},
		{&f.resultBuffer, "chdb_result_buffer"},
		{&f.resultLength, "chdb_result_length"},
		{&f.resultError, "chdb_result_error"},
		{&f.resultRows, "chdb_result_rows_read"},
		{&f.resultBytes, "chdb_result_bytes_read"},
		{&f.resultStorageRows, "chdb_result_storage_rows_read"},
		{&f.resultStorageBytes, "chdb_result_storage_bytes_read"},
		{&f.resultRowsWritten, "chdb_result_rows_written"},
		{&f.resultBytesWritten, "chdb_result_bytes_written"},
		{&f.classify, "chdb_classify_query_n"},
	} {
		symbol, err := purego.Dlsym(handle, bind.symbol)
		if err != nil {
			return nil, fmt.Errorf("chdb: %s has no symbol %s, expected libchdb of another version: %w",
				path, bind.symbol, err)
		}
		purego.RegisterFunc(bind.target, symbol)
	}
	f.setSignalHandlers(0)
	if err := signals.restore(); err != nil {
		return nil, err
	}
	return l, nil
}

// Version returns the library's version, such as "26.7.3".
func (l *Library) Version() string { return goString(l.fn.version()) }

// Connect opens a connection. The arguments have the form --name=value. Server arguments (--path) of the first
// connection apply to the process, settings apply to the connection.
func (l *Library) Connect(args ...string) (*Conn, error) {
	l.connect.Lock()
	defer l.connect.Unlock()
	argv := make([]*byte, 0, len(args)+2)
	for _, arg := range append([]string{"clickhouse"}, args...) {
		argv = append(argv, cString(arg))
	}
	argv = append(argv, nil)
	handle := l.fn.connect(int32(len(argv)-1), unsafe.Pointer(&argv[0]))
	runtime.KeepAlive(argv)
	if err := l.signals.restore(); err != nil {
		return nil, err
	}
	if handle == nil {
		return nil, errors.New("chdb: connect: the engine rejected the storage path or a setting")
	}
	return &Conn{lib: l, handle: handle}, nil
}

func cString(s string) *byte {
	b := make([]byte, len(s)+1)
	copy(b, s)
	return &b[0]
}

func goString(p unsafe.Pointer) string {
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(p, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(p), n))
}
