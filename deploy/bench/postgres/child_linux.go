package postgres

import (
	"os"
	"syscall"
)

// unprivileged is the user and group ID without rights on every Linux. PostgreSQL refuses to run as root.
const unprivileged = 65534

// childAttributes returns how the cluster's processes start: they end with this program, and are not root's.
func childAttributes() *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if os.Geteuid() == 0 {
		attributes.Credential = &syscall.Credential{Uid: unprivileged, Gid: unprivileged}
	}
	return attributes
}

// handOver makes a folder, with all that is in it, the property of the user that the cluster runs as.
func handOver(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Chown(dir, unprivileged, unprivileged)
}
