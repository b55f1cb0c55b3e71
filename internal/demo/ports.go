package demo

import (
	"fmt"
	"net"
	"strconv"
)

// The ports that are taken when they are free.
const (
	portGRPC          = 18000
	portAdmin         = 18001
	portEnvoyAdmin    = 19000
	portUpstreamAPI   = 9191
	portUpstreamStock = 9192
)

const host = "127.0.0.1"

// ports gives out listeners on the preferred ports, or on any free ones.
type ports struct{ preferred bool }

// choosePorts opens the control plane's listener. Who has that on its preferred port tries the other
// preferred ones too: Envoy opens its ports late, and may share them, so that of several demos only one
// can be let near them.
func choosePorts() (ports, net.Listener, error) {
	p := ports{preferred: true}
	l, err := p.listen(portGRPC)
	if err != nil {
		return p, nil, err
	}
	p.preferred = portOf(l.Addr().String()) == portGRPC
	return p, l, nil
}

func (p ports) listen(port int) (net.Listener, error) {
	if p.preferred {
		if l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port))); err == nil {
			return l, nil
		}
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, fmt.Errorf("no port to listen on: %w", err)
	}
	return l, nil
}

func portOf(addr string) int {
	_, port, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(port) // of an address we listened on
	return n
}

// places is where everything is, each as HOST:PORT but for the first two.
type places struct {
	program, dir           string
	grpc, admin            string
	envoyAdmin, api, stock string
}

// reserve chooses Envoy's ports, and holds them until release is called.
func (p ports) reserve(to *places) (release func(), err error) {
	var held []net.Listener
	release = func() {
		for _, l := range held {
			_ = l.Close() // nothing was said there
		}
	}
	for _, want := range []struct {
		port int
		addr *string
	}{
		{portEnvoyAdmin, &to.envoyAdmin}, {portUpstreamAPI, &to.api}, {portUpstreamStock, &to.stock},
	} {
		l, err := p.listen(want.port)
		if err != nil {
			release()
			return nil, err
		}
		held = append(held, l)
		*want.addr = l.Addr().String()
	}
	return release, nil
}
