package chdb

import (
	"fmt"
	"syscall"
	"unsafe"

	"github.com/ebitengine/purego"
)

// runtimeSignals are signals whose handlers the Go runtime requires and libchdb replaces.
var runtimeSignals = [...]syscall.Signal{
	syscall.SIGILL, syscall.SIGABRT, syscall.SIGFPE, syscall.SIGBUS, syscall.SIGSEGV, syscall.SIGURG,
}

// savedAction holds an opaque C struct sigaction: 152 bytes on Linux with glibc, 16 on macOS.
type savedAction [256]byte

// signalKeeper saves the process's signal handlers and restores them after a C function replaced them. It calls the C
// library's sigaction, which has the same signature on every supported platform.
type signalKeeper struct {
	sigaction func(sig int32, act, old unsafe.Pointer) int32
	saved     [len(runtimeSignals)]savedAction
}

func saveSignals() (*signalKeeper, error) {
	k := new(signalKeeper)
	symbol, err := purego.Dlsym(purego.RTLD_DEFAULT, "sigaction")
	if err != nil {
		return nil, fmt.Errorf("chdb: find sigaction: %w", err)
	}
	purego.RegisterFunc(&k.sigaction, symbol)
	for i, sig := range runtimeSignals {
		if k.sigaction(int32(sig), nil, unsafe.Pointer(&k.saved[i])) != 0 {
			return nil, fmt.Errorf("chdb: save the handler of %s", sig)
		}
	}
	return k, nil
}

func (k *signalKeeper) restore() error {
	for i, sig := range runtimeSignals {
		if k.sigaction(int32(sig), unsafe.Pointer(&k.saved[i]), nil) != 0 {
			return fmt.Errorf("chdb: restore the handler of %s", sig)
		}
	}
	return nil
}
