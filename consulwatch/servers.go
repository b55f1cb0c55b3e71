package consulwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/hashicorp/consul/api"
)

// defaultRPC is the port of a server's RPC when Consul does not say.
const defaultRPC = 8300

// errNoServers means that Consul was asked for its servers and named none.
var errNoServers = errors.New("consul names no servers: name them with --consul-servers, or let the token read the service consul and its nodes")

// checkServers refuses what cannot be the RPC port of a server, with or without a scheme.
func checkServers(servers []string) error {
	for _, server := range servers {
		if !isHostPort(withoutScheme(server)) {
			return fmt.Errorf("the server %q: want HOST:PORT of its RPC, such as 10.0.0.1:%d, and before it tls:// or tcp:// "+
				"where the certificates there are do not say whether it has TLS", server, defaultRPC)
		}
	}
	return nil
}

// servers asks the agent for HOST:PORT of the RPC ports of the servers. Where it does not say, because the
// question is blocked or it knows none, they are the healthy instances of the service that they register.
func (s *Source) servers(ctx context.Context) ([]string, error) {
	const path = "/v1/status/peers"
	var peers []string
	_, err := s.client.Raw().Query(path, &peers, s.options(ctx))
	if err == nil && len(peers) > 0 {
		return peers, nil
	}
	var first error
	if err != nil {
		first = s.explain(query{path: path}, err)
		if !errors.As(err, new(api.StatusError)) {
			return nil, first
		}
	}
	options := s.options(ctx)
	options.AllowStale = true // the list does not need a leader, and lacking one is a reason to ask for it
	rows, _, err := s.client.Health().Service("consul", "", true, options)
	if err != nil {
		return nil, cmp.Or(first, error(s.explain(query{path: "/v1/health/service/consul"}, err)))
	}
	for _, row := range rows {
		if server := serverOf(row); server != "" {
			peers = append(peers, server)
		}
	}
	switch {
	case len(peers) > 0:
		return peers, nil
	case first != nil:
		return nil, fmt.Errorf("%w (%w)", errNoServers, first)
	}
	return nil, errNoServers
}

// serverOf returns where the server is that an instance of the service consul stands for; empty if it does
// not say.
func serverOf(row *api.ServiceEntry) string {
	if row == nil || row.Service == nil || row.Node == nil {
		return ""
	}
	host := cmp.Or(row.Service.Address, row.Node.Address)
	if host == "" {
		return ""
	}
	return net.JoinHostPort(host, strconv.Itoa(cmp.Or(row.Service.Port, defaultRPC)))
}
