package demo

import "syscall"

// dieWithParent has the kernel kill a child when the thread that started it ends, and keeps the
// terminal's signals from it: we end it ourselves.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// ownSession keeps the terminal's signals and its end from a child.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
