package versions

import "golang.org/x/sys/unix"

// bootOfSystem names the time since the machine was started, "" if nobody says it.
func bootOfSystem() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}
