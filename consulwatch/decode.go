package consulwatch

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// decodeServices returns the names of /v1/catalog/services in order.
func decodeServices(body []byte) ([]string, error) {
	var tags map[string][]string
	if err := json.Unmarshal(body, &tags); err != nil {
		return nil, err
	}
	names := make([]string, 0, len(tags))
	for name := range tags {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// decodeRoots returns the certificate authority of /v1/connect/ca/roots.
func decodeRoots(body []byte) (facts.Roots, error) {
	var ca struct {
		TrustDomain string
		Roots       []struct {
			ID, RootCert      string
			IntermediateCerts []string
			Active            bool
		}
	}
	if err := json.Unmarshal(body, &ca); err != nil {
		return facts.Roots{}, err
	}
	roots := facts.Roots{TrustDomain: ca.TrustDomain}
	for i, r := range ca.Roots {
		if r.ID == "" || r.RootCert == "" || ca.TrustDomain == "" {
			return facts.Roots{}, fmt.Errorf("root %d has no ID, no certificate or no trust domain", i)
		}
		roots.List = append(roots.List, facts.Root{
			ID: r.ID, Cert: r.RootCert, Intermediates: listOrNil(r.IntermediateCerts), Active: r.Active,
		})
	}
	slices.SortFunc(roots.List, func(a, b facts.Root) int { return strings.Compare(a.ID, b.ID) })
	return roots, nil
}

// decodeInstances returns the rows of a health endpoint; of those for a topic of proxies only the
// sidecars.
func decodeInstances(body []byte, kind facts.TopicKind) ([]*facts.Instance, error) {
	var rows []*api.ServiceEntry
	if err := json.Unmarshal(body, &rows); err != nil {
		return nil, err
	}
	list := make([]*facts.Instance, 0, len(rows))
	for i, row := range rows {
		if row == nil || row.Node == nil || row.Service == nil {
			return nil, fmt.Errorf("row %d has no node or no service", i)
		}
		if kind == facts.TopicProxies && row.Service.Kind != api.ServiceKindConnectProxy {
			continue
		}
		list = append(list, &facts.Instance{Node: node(row.Node), Service: service(row.Service), Checks: checks(row.Checks)})
	}
	return list, nil
}

func node(n *api.Node) facts.Node {
	return facts.Node{
		ID: n.ID, Node: n.Node, Address: n.Address, Datacenter: n.Datacenter,
		TaggedAddresses: orNil(n.TaggedAddresses), Meta: orNil(n.Meta), Locality: locality(n.Locality),
		ModifyIndex: n.ModifyIndex,
	}
}

func service(s *api.AgentService) facts.Service {
	out := facts.Service{
		Kind: string(s.Kind), ID: s.ID, Service: s.Service, Tags: listOrNil(s.Tags),
		Address: s.Address, Port: s.Port, Meta: orNil(s.Meta),
		Weights:           facts.Weights{Passing: s.Weights.Passing, Warning: s.Weights.Warning},
		EnableTagOverride: s.EnableTagOverride, Proxy: proxy(s.Proxy), Locality: locality(s.Locality),
		ModifyIndex: s.ModifyIndex,
	}
	if s.Connect != nil {
		out.Connect.Native = s.Connect.Native
	}
	if len(s.TaggedAddresses) > 0 {
		out.TaggedAddresses = make(map[string]facts.Address, len(s.TaggedAddresses))
		for tag, a := range s.TaggedAddresses {
			out.TaggedAddresses[tag] = facts.Address{Address: a.Address, Port: a.Port}
		}
	}
	return out
}

func proxy(p *api.AgentServiceConnectProxyConfig) *facts.Proxy {
	if p == nil || p.DestinationServiceName == "" {
		return nil // Consul gives every service an empty one
	}
	out := &facts.Proxy{
		DestinationServiceName: p.DestinationServiceName, DestinationServiceID: p.DestinationServiceID,
		LocalServiceAddress: p.LocalServiceAddress, LocalServicePort: p.LocalServicePort,
		LocalServiceSocketPath: p.LocalServiceSocketPath, Mode: string(p.Mode), Config: orNil(p.Config),
		MeshGateway: meshGateway(p.MeshGateway), Expose: chain.Expose{Checks: p.Expose.Checks},
	}
	for _, path := range p.Expose.Paths {
		out.Expose.Paths = append(out.Expose.Paths, chain.ExposePath{
			ListenerPort: path.ListenerPort, Path: path.Path, LocalPathPort: path.LocalPathPort,
			Protocol: path.Protocol, ParsedFromCheck: path.ParsedFromCheck,
		})
	}
	for _, u := range p.Upstreams {
		out.Upstreams = append(out.Upstreams, facts.Upstream{
			DestinationType: string(u.DestinationType), DestinationName: u.DestinationName,
			DestinationPeer: u.DestinationPeer, Datacenter: u.Datacenter,
			LocalBindAddress: u.LocalBindAddress, LocalBindPort: u.LocalBindPort,
			LocalBindSocketPath: u.LocalBindSocketPath, LocalBindSocketMode: u.LocalBindSocketMode,
			Config: orNil(u.Config), MeshGateway: meshGateway(u.MeshGateway),
			CentrallyConfigured:  u.CentrallyConfigured,
			DestinationNamespace: u.DestinationNamespace, DestinationPartition: u.DestinationPartition,
		})
	}
	return out
}

func meshGateway(g api.MeshGatewayConfig) chain.MeshGateway {
	return chain.MeshGateway{Mode: chain.MeshGatewayMode(g.Mode)}
}

func locality(l *api.Locality) *facts.Locality {
	if l == nil || *l == (api.Locality{}) {
		return nil
	}
	return &facts.Locality{Region: l.Region, Zone: l.Zone}
}

func checks(list api.HealthChecks) []facts.Check {
	out := make([]facts.Check, 0, len(list))
	for _, c := range list {
		out = append(out, facts.Check{
			Node: c.Node, CheckID: c.CheckID, Name: c.Name, Status: facts.CheckStatus(c.Status),
			Notes: c.Notes, ServiceID: c.ServiceID, ServiceName: c.ServiceName,
			ServiceTags: listOrNil(c.ServiceTags), Type: c.Type, ModifyIndex: c.ModifyIndex,
			Definition: checkDefinition(&c.Definition),
		})
	}
	return out
}

// checkDefinition is nil for a definition of no kind that can be probed.
func checkDefinition(d *api.HealthCheckDefinition) *facts.CheckDefinition {
	if d.HTTP == "" && d.TCP == "" && d.GRPC == "" {
		return nil
	}
	return &facts.CheckDefinition{
		HTTP: d.HTTP, TCP: d.TCP, GRPC: d.GRPC, Method: d.Method, Body: d.Body, Header: orNil(d.Header),
		TLS:      d.TCP != "" && d.TCPUseTLS || d.GRPC != "" && d.GRPCUseTLS,
		Interval: d.IntervalDuration, Timeout: d.TimeoutDuration,
	}
}

// orNil and listOrNil make one of the two forms of emptiness, which differ between Consul's backends
// but mean the same.
func orNil[V any](m map[string]V) map[string]V {
	if len(m) == 0 {
		return nil
	}
	return m
}

func listOrNil[V any](list []V) []V {
	if len(list) == 0 {
		return nil
	}
	return list
}
