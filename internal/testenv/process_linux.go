package testenv

import "syscall"

// diesWithParent makes the kernel kill the child when the test binary is killed.
func diesWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
