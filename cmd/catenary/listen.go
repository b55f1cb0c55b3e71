package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
)

// listen opens both listeners, and warns of one that others can reach.
func (p *plane) listen(ctx context.Context, grpcAddr, adminAddr string, encrypted bool) (err error) {
	var config net.ListenConfig
	if p.grpc, err = config.Listen(ctx, "tcp", grpcAddr); err != nil {
		return cannotListen("--grpc-addr", grpcAddr, err)
	}
	if p.http, err = config.Listen(ctx, "tcp", adminAddr); err != nil {
		return errors.Join(cannotListen("--admin-addr", adminAddr, err), p.grpc.Close())
	}
	if !isLoopback(p.grpc.Addr()) {
		p.auth.warn(p.log, p.grpc.Addr().String(), encrypted)
		p.questions.warn(p.log, p.grpc.Addr().String(), encrypted)
	}
	if !isLoopback(p.http.Addr()) {
		p.log.Warn("the HTTP side tells everyone who reaches this address what the fleet looks like",
			"admin", p.http.Addr().String())
	}
	return nil
}

// cannotListen is why a flag's address cannot be listened at.
func cannotListen(flag, addr string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s %s is taken: is another catenary running? give another %[1]s", flag, addr)
	}
	return fmt.Errorf("%s %s: %w", flag, addr, err)
}

func isLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
