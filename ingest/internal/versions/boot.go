//go:build !darwin

package versions

import (
	"os"
	"strings"
)

// bootOfSystem names the time since the machine was started, "" if nobody says it.
func bootOfSystem() string {
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}
