package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/catenary-mesh/catenary/internal/certdir"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// keeping is a directory in which the certificate of a service is kept.
type keeping struct {
	service string
	dir     *certdir.Dir
	held    *certificates
	log     hclog.Logger
	once    bool

	written certdir.Set
	failure string // why the newest could not be written
}

// rewrite is how soon it is tried again to write what could not be written.
const rewrite = 5 * time.Second

// follow writes what there is whenever it changes, until ctx ends.
func (k *keeping) follow(ctx context.Context, store *facts.Store) error {
	sub := store.Subscribe()
	defer sub.Close()
	again := time.NewTimer(rewrite)
	defer again.Stop()
	for {
		view, _ := sub.Drain()
		set, leaf, ok := k.newest(view)
		if ok {
			err := k.write(set, leaf)
			if k.once {
				return err
			}
			if err != nil {
				again.Reset(rewrite)
			}
		}
		select {
		case <-sub.Bell():
		case <-again.C:
		case <-ctx.Done():
			if k.once {
				return unreachable(fmt.Errorf("there is no certificate of %s within %s: %s", k.service, onceTimeout, k.missing(store.View())))
			}
			return nil
		}
	}
}

// newest returns what the files are to hold, if all of it is there: a certificate under one of the roots.
func (k *keeping) newest(view facts.View) (certdir.Set, facts.Leaf, bool) {
	leaf, _ := view.Leaf(k.service)
	roots, _ := view.Roots()
	if !slices.ContainsFunc(roots.List, func(r facts.Root) bool { return r.ID == leaf.Root }) {
		return certdir.Set{}, leaf, false
	}
	chain, key, ok := k.held.Pair(leaf)
	return certdir.Set{Leaf: chain, Key: key, Roots: bundle(roots)}, leaf, ok
}

// bundle is all roots, each on lines of its own.
func bundle(roots facts.Roots) []byte {
	var b bytes.Buffer
	for _, r := range roots.List {
		b.WriteString(strings.TrimRight(r.Cert, "\n") + "\n")
	}
	return b.Bytes()
}

// write writes a set that differs from what is there. What is wrong is told once.
func (k *keeping) write(set certdir.Set, leaf facts.Leaf) error {
	if bytes.Equal(set.Leaf, k.written.Leaf) && bytes.Equal(set.Roots, k.written.Roots) {
		return nil
	}
	err := k.dir.Write(set)
	if err != nil {
		err = fmt.Errorf("the certificate of %s cannot be written: %w", k.service, err)
		if k.failure != err.Error() {
			k.log.Error("the files are not the newest: writing is tried again", "reason", err)
		}
		k.failure = err.Error()
		return err
	}
	k.written, k.failure = set, ""
	k.log.Info("the certificate is written", "service", leaf.Service, "serial", leaf.Serial, "not_after", leaf.NotAfter.UTC().Format(time.RFC3339))
	return nil
}

// missing is why there is nothing to write.
func (k *keeping) missing(view facts.View) string {
	if _, state := view.Roots(); state != facts.Present {
		return view.Why(facts.ID{Topic: facts.CARoots()})
	}
	return view.Why(facts.ID{Topic: facts.LeafOf(k.service)})
}
