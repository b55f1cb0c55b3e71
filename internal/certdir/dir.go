// Package certdir keeps a certificate, its key and the roots that others prove themselves by in a directory, for
// programs that read these files again and again, such as gRPC's file_watcher. A [Set] goes in, files come out: all
// of a set at once, so that a certificate never stands beside another's key.
//
// As Kubernetes does, the files are links through one link that is replaced: leaf.pem is ..now/leaf.pem, and ..now
// is the directory of the newest set. What is read by a program that has opened the set before stays whole.
package certdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The files in a directory.
const (
	LeafFile  = "leaf.pem"  // the certificate, and the intermediates behind it
	KeyFile   = "key.pem"   // its key, in PKCS #8: the only form that gRPC for Java reads
	RootsFile = "roots.pem" // all roots that are trusted
)

const (
	now    = "..now"  // the link to the newest set
	next   = "..next" // what takes the place of a link
	locked = "..lock"
	setOf  = "..set-" // begins the directories of sets
)

// Dir is a directory that is kept. Create one with [Open]; it is for one goroutine.
type Dir struct {
	path     string
	lock     *os.File
	previous string // the set before the newest: who is about to read it still can
}

// Open makes the directory if there is none, and locks it until [Dir.Close]: two that kept it would remove each
// other's files. Its error says what stands in the way.
func Open(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("the directory for the certificate cannot be made: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, locked), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the directory for the certificate cannot be written to: %w", err)
	}
	if err := tryLock(lock); err != nil {
		return nil, errors.Join(fmt.Errorf("the directory %s is kept by another process (%w): end that, or name another directory", path, err), lock.Close())
	}
	d := &Dir{path: path, lock: lock}
	if err := d.foreign(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Close ends the lock. The files stay.
func (d *Dir) Close() error { return d.lock.Close() }

func (d *Dir) in(name string) string { return filepath.Join(d.path, name) }

// foreign returns an error when a file is not ours to replace.
func (d *Dir) foreign() error {
	for _, name := range []string{LeafFile, KeyFile, RootsFile} {
		switch to, err := os.Readlink(d.in(name)); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil || to != target(name):
			return fmt.Errorf("%s is not a file of ours, and is not replaced: move it away, or name another directory", d.in(name))
		}
	}
	return nil
}

// target is where the link of a file leads.
func target(name string) string { return filepath.Join(now, name) }

// Write puts a set in the place of the one before. When it returns an error one of the two is there, whole.
func (d *Dir) Write(s Set) error {
	files, err := s.files()
	if err != nil {
		return err
	}
	if err := d.foreign(); err != nil {
		return err
	}
	before, err := os.Readlink(d.in(now))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fresh, err := d.fill(files)
	if err != nil {
		return err
	}
	if err := d.link(fresh, now); err != nil {
		return errors.Join(err, os.RemoveAll(d.in(fresh)))
	}
	for _, f := range files {
		if _, err := os.Lstat(d.in(f.name)); err == nil {
			continue
		}
		if err := d.link(target(f.name), f.name); err != nil {
			return err
		}
	}
	d.previous = before
	return errors.Join(syncDir(d.path), d.sweep(fresh))
}

// fill writes files into a new directory, down to the disk, and returns its name.
func (d *Dir) fill(files []file) (name string, err error) {
	dir, err := os.MkdirTemp(d.path, setOf)
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	for _, f := range files {
		if err := f.write(dir); err != nil {
			return "", err
		}
	}
	// The key is kept from others by its own mode.
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	return filepath.Base(dir), syncDir(dir)
}

// link has a link lead elsewhere, in one step.
func (d *Dir) link(to, name string) error {
	if err := os.Remove(d.in(next)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(to, d.in(next)); err != nil {
		return err
	}
	return os.Rename(d.in(next), d.in(name))
}

// sweep removes all sets but the newest and the one before it.
func (d *Dir) sweep(newest string) error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if name := e.Name(); strings.HasPrefix(name, setOf) && name != newest && name != d.previous {
			err = errors.Join(err, os.RemoveAll(d.in(name)))
		}
	}
	return err
}

// syncDir has the entries of a directory written to the disk.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
