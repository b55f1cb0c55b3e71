//go:build !linux

package demo

import "syscall"

// dieWithParent cannot be asked of this system: a demo that is killed leaves its Envoy.
func dieWithParent() *syscall.SysProcAttr { return nil }

// ownSession is needed on systems only where the janitor cannot ignore what the terminal sends.
func ownSession() *syscall.SysProcAttr { return nil }
