package main

import "syscall"

// apart keeps the terminal's signals from a child, which this process ends, and has the kernel end it
// when this process is killed.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
