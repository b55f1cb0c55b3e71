package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// hangups has the token and the certificates for Consul read again, and the certificates of services renewed,
// at each hangup signal, until the context ends.
func (p *plane) hangups(ctx context.Context) error {
	if p.source.reload == nil {
		return nil
	}
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	for {
		select {
		case <-hup:
			if err := p.source.reload(); err != nil {
				p.log.Error("not all could be read again: what could not stays as it was", "reason", err)
			}
			p.certificates.renew()
		case <-ctx.Done():
			return nil
		}
	}
}
