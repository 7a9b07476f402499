//go:build !darwin

package dedup

import (
	"os"
	"strings"
)

// bootID identifies the current boot of the machine. It is empty if the system does not provide it.
func bootID() string {
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}
