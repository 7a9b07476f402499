package engine

import (
	"log/slog"
	"os"
	"slices"
	"strings"
)

// sandboxEnv tells a child to restrict itself to the files of its program, the engine and the system. Its value is the
// data directory and the library, separated by a newline.
const sandboxEnv = "MUSTER_ENGINE_CONFINE"

func sandboxVariable(cfg *ServerConfig) string {
	return sandboxEnv + "=" + cfg.Dir + "\n" + cfg.Library
}

// sandboxChild applies sandboxEnv. On success it does not return: it executes the program again without the variable.
// Otherwise the child continues without a sandbox.
func sandboxChild(logger *slog.Logger) {
	dir, library, found := strings.Cut(os.Getenv(sandboxEnv), "\n")
	if !found {
		return
	}
	err := os.Unsetenv(sandboxEnv)
	if err == nil {
		err = sandbox(dir, library)
	}
	logger.Info("engine: no sandbox, file access is limited only by the rights of this user", "reason", err)
}

// childEnvironment returns the environment variables that the child inherits. It excludes secrets, because the engine
// can read its own environment.
func childEnvironment() []string {
	prefixes := []string{"LC_", "XDG_", "DYLD_"}
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		switch name {
		case "PATH", "HOME", "USER", "TMPDIR", "TZ", "TZDIR", "LANG", "NO_COLOR", "TERM", "LD_LIBRARY_PATH",
			LibraryEnv, "SSL_CERT_FILE", "SSL_CERT_DIR",
			"GODEBUG", "GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GOTRACEBACK", "GOCOVERDIR", "GORACE":
			return false
		}
		return !slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	})
}
