//go:build !linux

package postgres

import "syscall"

func childAttributes() *syscall.SysProcAttr { return nil }

func handOver(string) error { return nil }
