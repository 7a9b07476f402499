package postgres

import (
	"os"
	"syscall"
)

// nobody is the user and the group without rights that every Linux has. PostgreSQL refuses to run as root.
const nobody = 65534

// childAttributes returns how the cluster's processes start: they end with this program, and are not root's.
func childAttributes() *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if os.Geteuid() == 0 {
		attributes.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	return attributes
}

// handOver makes a folder, with all that is in it, the property of the user that the cluster runs as.
func handOver(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Chown(dir, nobody, nobody)
}
