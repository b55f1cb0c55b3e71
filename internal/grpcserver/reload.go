package grpcserver

import (
	"context"
	"crypto/tls"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/hashicorp/go-hclog"
)

const (
	// settle is how long changes gather: certificate and key are two files.
	settle = 200 * time.Millisecond
	// patience is how long they gather at most: where something always changes, nothing ever settles.
	patience = 2 * time.Second
	// recheck is how often the files are read all the same: some file systems do not notify.
	recheck = 30 * time.Second
)

// certificates is what the files held when they were last good. gRPC's own provider for files is of no
// use here: when they do not fit together it logs the private key, and tells nobody else.
type certificates struct {
	files   Files
	log     hclog.Logger
	metrics Metrics
	current atomic.Pointer[tls.Config]

	// of the goroutine in follow
	loaded  contents
	trouble string
}

// openCertificates reads the files for the first time, when an error is the end.
func openCertificates(cfg Config) (*certificates, error) {
	c := &certificates{files: cfg.TLS, log: cfg.Logger, metrics: cfg.Metrics}
	if err := c.files.check(); err != nil {
		return nil, err
	}
	read, err := c.files.read()
	if err != nil {
		return nil, err
	}
	return c, c.use(read)
}

// use makes what was read the current certificate. Connections that there are keep theirs.
func (c *certificates) use(read contents) error {
	config, err := c.files.config(read)
	if err != nil {
		return err
	}
	c.loaded = read
	c.current.Store(config)
	c.metrics.GRPCCertificate(expires(config), nil)
	if time.Now().After(expires(config)) {
		c.log.Warn("the certificate of the gRPC port has expired: clients will refuse it",
			"file", c.files.Cert, "expired", expires(config))
	}
	return nil
}

// reload reads the files again. What cannot be used leaves the last good certificate in force.
func (c *certificates) reload() {
	read, err := c.files.read()
	if err == nil && !read.equal(c.loaded) {
		if err = c.use(read); err == nil {
			c.log.Info("the certificate of the gRPC port was replaced",
				"file", c.files.Cert, "expires", expires(c.current.Load()))
		}
	}
	switch {
	case err == nil && c.trouble != "":
		c.trouble = ""
		c.log.Info("the certificate of the gRPC port is good again", "file", c.files.Cert)
	case err != nil && c.trouble != err.Error():
		c.trouble = err.Error()
		c.metrics.GRPCCertificate(time.Time{}, err)
		c.log.Error("the certificate of the gRPC port cannot be read again; the last good one stays in force", "error", err)
	}
}

// follow reloads the files whenever they change, until ctx ends.
func (c *certificates) follow(ctx context.Context) {
	events, errs, done := c.watch()
	defer done()
	for {
		c.reload() // first after the watch is set: what changes from then on is told
		if !c.changed(ctx, events, errs) {
			return
		}
	}
}

// watch follows the directories, because files are replaced by being renamed. Where that is not to be
// had, the channels are nil.
func (c *certificates) watch() (<-chan fsnotify.Event, <-chan error, func()) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		c.log.Warn("the files of the certificate cannot be watched; they are read every "+recheck.String(), "error", err)
		return nil, nil, func() {}
	}
	for _, file := range []string{c.files.Cert, c.files.Key, c.files.CA} {
		if file == "" {
			continue
		}
		if err := w.Add(filepath.Dir(file)); err != nil {
			c.log.Warn("a directory cannot be watched; it is read every "+recheck.String(), "file", file, "error", err)
		}
	}
	return w.Events, w.Errors, func() { _ = w.Close() } // its descriptors end with it in any case
}

// changed waits until something may have changed; false when ctx has ended.
func (c *certificates) changed(ctx context.Context, events <-chan fsnotify.Event, errs <-chan error) bool {
	timer := time.NewTimer(recheck)
	defer timer.Stop()
	var latest <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case <-latest:
			return true
		case <-events:
		case err := <-errs:
			c.log.Debug("watching the files of the certificate failed for a moment; they are read again", "error", err)
		}
		timer.Reset(settle)
		if latest == nil {
			latest = time.After(patience)
		}
	}
}
