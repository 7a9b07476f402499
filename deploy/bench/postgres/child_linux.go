package postgres

import (
	"os"
	"syscall"
)

// unprivileged is the ID of the unprivileged user and group on every Linux. PostgreSQL does not run as root.
const unprivileged = 65534

// childAttributes returns attributes so that child processes exit with this program, and do not run as root.
func childAttributes() *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if os.Geteuid() == 0 {
		attributes.Credential = &syscall.Credential{Uid: unprivileged, Gid: unprivileged}
	}
	return attributes
}

// handOver changes the owner of a directory and its content to the user of the cluster.
func handOver(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Chown(dir, unprivileged, unprivileged)
}
