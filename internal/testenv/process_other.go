//go:build !linux

package testenv

import "syscall"

// diesWithParent cannot be asked of this system; a killed test binary leaves its children.
func diesWithParent() *syscall.SysProcAttr { return nil }
