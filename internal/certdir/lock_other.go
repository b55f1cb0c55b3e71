//go:build !unix || solaris || aix

package certdir

import "os"

// tryLock is without effect where files have no such locks.
func tryLock(*os.File) error { return nil }
