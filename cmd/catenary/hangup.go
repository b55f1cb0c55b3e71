package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/hashicorp/go-hclog"
)

// hangups has the token and the certificates for Consul read again, and the certificates of services renewed,
// at each hangup signal, until the context ends.
func (p *plane) hangups(ctx context.Context) error {
	if p.source.reload == nil {
		return nil
	}
	onHangup(ctx, func() { p.certificates.refresh(p.source, p.log) })
	return nil
}

// refresh reads again with what Consul is reached, and renews all certificates.
func (c *certificates) refresh(from source, log hclog.Logger) {
	if err := from.reload(); err != nil {
		log.Error("not all could be read again: what could not stays as it was", "reason", err)
	}
	c.renew()
}

// onHangup calls f at each hangup signal, until the context ends.
func onHangup(ctx context.Context, f func()) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	for {
		select {
		case <-hup:
			f()
		case <-ctx.Done():
			return
		}
	}
}
