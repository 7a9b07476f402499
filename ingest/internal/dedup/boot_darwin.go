package dedup

import "golang.org/x/sys/unix"

// bootID identifies the current boot of the machine. It is empty if the system does not provide it.
func bootID() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}
