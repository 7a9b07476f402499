package engine

import (
	"log/slog"
	"os"
	"slices"
	"strings"
)

// confineEnv tells a child to keep itself from all files but its program's, the
// engine's and the system's: the data folder and the library, in this form.
const confineEnv = "MUSTER_ENGINE_CONFINE"

func confineVariable(cfg *ServerConfig) string {
	return confineEnv + "=" + cfg.Dir + "\n" + cfg.Library
}

// confineChild obeys confineEnv. Where that works it does not return: the child
// begins anew, without the variable. Where it does not, the child goes on.
func confineChild(logger *slog.Logger) {
	dir, library, found := strings.Cut(os.Getenv(confineEnv), "\n")
	if !found {
		return
	}
	err := os.Unsetenv(confineEnv)
	if err == nil {
		err = confine(dir, library)
	}
	logger.Info("engine: nothing but this user's rights keeps it from other files", "reason", err)
}

// childEnvironment is what the engine's process gets of this process's: no
// secrets, because it can read its own.
func childEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		switch name {
		case "PATH", "HOME", "USER", "TMPDIR", "TZ", "TZDIR", "LANG", "NO_COLOR", "TERM", "LD_LIBRARY_PATH", LibraryEnv, "SSL_CERT_FILE", "SSL_CERT_DIR",
			"GODEBUG", "GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GOTRACEBACK", "GOCOVERDIR", "GORACE":
			return false
		}
		return !slices.ContainsFunc([]string{"LC_", "XDG_", "DYLD_"}, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	})
}
