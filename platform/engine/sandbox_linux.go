package engine

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Landlock access rights (landlock(7)).
const (
	readFiles  = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	writeFiles = readFiles | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	runFiles = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE
	// fileRights are the rights that apply to files; the others apply only to directories.
	fileRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
)

// systemFiles returns the system files that the C library, the Go runtime and the engine read: libraries, time zones,
// certificates, host names, memory limits.
func systemFiles() []string {
	return []string{
		"/usr", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store", "/sys",
		"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom",
		"/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/uptime", "/proc/version",
		"/proc/filesystems", "/proc/sys",
		"/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/localtime", "/etc/timezone", "/etc/resolv.conf",
		"/etc/nsswitch.conf", "/etc/hosts", "/etc/host.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols",
		"/etc/passwd", "/etc/group", "/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/var/lib/ca-certificates",
	}
}

// sandbox executes this program again in place of this process, restricted to the program, the engine's library and
// data, and systemFiles. It cannot access other files or execute other programs. It returns only an error.
func sandbox(dir, library string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	// The rule applies to this inode of /proc, which the descriptor keeps alive.
	self, err := unix.Open("/proc/self", unix.O_PATH, 0)
	if err != nil {
		return err
	}
	ruleset, err := newRuleset(program, dir, library, self)
	if err != nil {
		return errors.Join(err, unix.Close(self))
	}
	// The restriction applies to this thread; exec replaces all threads by it.
	runtime.LockOSThread()
	err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	if err == nil {
		if _, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0); errno != 0 {
			err = errno
		}
	}
	if err != nil {
		runtime.UnlockOSThread()
		return errors.Join(err, unix.Close(self), unix.Close(ruleset))
	}
	err = unix.Exec(program, os.Args, os.Environ())
	// Only this thread is restricted: the process cannot continue in this state.
	fmt.Fprintf(os.Stderr, "engine: execute %s: %s\n", program, err)
	os.Exit(notExecuted)
	return nil
}

// newRuleset creates the Landlock ruleset of a process that serves the engine.
func newRuleset(program, dir, library string, self int) (_ int, err error) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, fmt.Errorf("landlock: %w", errno)
	}
	handled := uint64(writeFiles | runFiles)
	switch {
	case abi < 2:
		// The engine moves files between directories, which requires LANDLOCK_ACCESS_FS_REFER.
		return 0, errors.New("landlock is older than Linux 5.19's")
	case abi < 3:
		handled &^= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	size := unsafe.Sizeof(handled)
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&handled)), size, 0)
	if errno != 0 {
		return 0, fmt.Errorf("landlock: %w", errno)
	}
	ruleset := int(fd)
	defer func() {
		if err != nil {
			unix.Close(ruleset)
		}
	}()
	allow := func(access uint64, paths ...string) error {
		for _, path := range paths {
			if err := allowPath(ruleset, access&handled, path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("landlock: %s: %w", path, err)
			}
		}
		return nil
	}
	return ruleset, errors.Join(
		allowOpen(ruleset, readFiles&handled, self), allow(readFiles, systemFiles()...), allow(readFiles, library),
		allow(runFiles, program, interpreter(program)), allow(writeFiles, os.DevNull, dir),
	)
}

func allowPath(ruleset int, access uint64, path string) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return allowOpen(ruleset, access, fd)
}

func allowOpen(ruleset int, access uint64, fd int) error {
	var about unix.Stat_t
	if err := unix.Fstat(fd, &about); err != nil {
		return err
	}
	if about.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= fileRights
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// interpreter returns the dynamic loader of a program, or "".
func interpreter(program string) string {
	file, err := elf.Open(program)
	if err != nil {
		return ""
	}
	defer file.Close()
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP {
			name, err := io.ReadAll(segment.Open())
			if err != nil {
				return ""
			}
			return strings.TrimRight(string(name), "\x00")
		}
	}
	return ""
}
