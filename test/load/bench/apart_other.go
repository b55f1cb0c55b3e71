//go:build !linux

package main

import "syscall"

// apart keeps the terminal's signals from a child. A bench that is killed leaves its children here.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
