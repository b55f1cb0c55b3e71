package consulwatch

import (
	"fmt"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/proto/subscribe"
)

// eventInstance makes of an event's row what [decodeInstances] makes of the same row over HTTP.
func eventInstance(row *subscribe.CheckServiceNode) (*facts.Instance, error) {
	n, s := row.GetNode(), row.GetService()
	if n.GetNode() == "" || s.GetId() == "" {
		return nil, fmt.Errorf("an event's row has no node or no service")
	}
	in := &facts.Instance{Node: eventNode(n), Service: eventService(s), Checks: make([]facts.Check, 0, len(row.GetChecks()))}
	for _, c := range row.GetChecks() {
		in.Checks = append(in.Checks, facts.Check{
			Node: c.GetNode(), CheckID: c.GetCheckId(), Name: c.GetName(), Status: facts.CheckStatus(c.GetStatus()),
			Notes: c.GetNotes(), ServiceID: c.GetServiceId(), ServiceName: c.GetServiceName(),
			ServiceTags: listOrNil(c.GetServiceTags()), Type: c.GetType(), ModifyIndex: c.GetRaftIndex().GetModifyIndex(),
			Definition: eventDefinition(c.GetDefinition()),
		})
	}
	return in, nil
}

// eventDefinition is [checkDefinition] of an event.
func eventDefinition(d *subscribe.HealthCheckDefinition) *facts.CheckDefinition {
	if d == nil {
		return nil
	}
	header := make(map[string][]string, len(d.GetHeader()))
	for name, v := range d.GetHeader() {
		header[name] = v.GetValue()
	}
	return checkDefinition(&api.HealthCheckDefinition{
		HTTP: d.GetHttp(), TCP: d.GetTcp(), GRPC: d.GetGrpc(), Method: d.GetMethod(), Body: d.GetBody(), Header: header,
		TCPUseTLS: d.GetTcpUseTls(), GRPCUseTLS: d.GetGrpcUseTls(),
		IntervalDuration: d.GetInterval().AsDuration(), TimeoutDuration: d.GetTimeout().AsDuration(),
	})
}

func eventNode(n *subscribe.Node) facts.Node {
	return facts.Node{
		ID: n.GetId(), Node: n.GetNode(), Address: n.GetAddress(), Datacenter: n.GetDatacenter(),
		TaggedAddresses: orNil(n.GetTaggedAddresses()), Meta: orNil(n.GetMeta()), Locality: eventLocality(n.GetLocality()),
		ModifyIndex: n.GetRaftIndex().GetModifyIndex(),
	}
}

func eventService(s *subscribe.NodeService) facts.Service {
	out := facts.Service{
		Kind: s.GetKind(), ID: s.GetId(), Service: s.GetService(), Tags: listOrNil(s.GetTags()),
		Address: s.GetAddress(), Port: int(s.GetPort()), Meta: orNil(s.GetMeta()),
		Weights:           facts.Weights{Passing: int(s.GetWeights().GetPassing()), Warning: int(s.GetWeights().GetWarning())},
		EnableTagOverride: s.GetEnableTagOverride(), Proxy: eventProxy(s.GetProxy()),
		Connect: facts.Native{Native: s.GetConnect().GetNative()}, Locality: eventLocality(s.GetLocality()),
		ModifyIndex: s.GetRaftIndex().GetModifyIndex(),
	}
	if len(s.GetTaggedAddresses()) > 0 {
		out.TaggedAddresses = make(map[string]facts.Address, len(s.GetTaggedAddresses()))
		for tag, a := range s.GetTaggedAddresses() {
			out.TaggedAddresses[tag] = facts.Address{Address: a.GetAddress(), Port: int(a.GetPort())}
		}
	}
	return out
}

func eventProxy(p *subscribe.ConnectProxyConfig) *facts.Proxy {
	if p.GetDestinationServiceName() == "" {
		return nil // Consul gives every service an empty one
	}
	out := &facts.Proxy{
		DestinationServiceName: p.GetDestinationServiceName(), DestinationServiceID: p.GetDestinationServiceId(),
		LocalServiceAddress: p.GetLocalServiceAddress(), LocalServicePort: int(p.GetLocalServicePort()),
		LocalServiceSocketPath: p.GetLocalServiceSocketPath(), Mode: p.GetMode(), Config: orNil(p.GetConfig().AsMap()),
		MeshGateway: eventMeshGateway(p.GetMeshGateway()), Expose: chain.Expose{Checks: p.GetExpose().GetChecks()},
	}
	for _, path := range p.GetExpose().GetPaths() {
		out.Expose.Paths = append(out.Expose.Paths, chain.ExposePath{
			ListenerPort: int(path.GetListenerPort()), Path: path.GetPath(), LocalPathPort: int(path.GetLocalPathPort()),
			Protocol: path.GetProtocol(), ParsedFromCheck: path.GetParsedFromCheck(),
		})
	}
	for _, u := range p.GetUpstreams() {
		out.Upstreams = append(out.Upstreams, facts.Upstream{
			DestinationType: u.GetDestinationType(), DestinationName: u.GetDestinationName(),
			DestinationPeer: u.GetDestinationPeer(), Datacenter: u.GetDatacenter(),
			LocalBindAddress: u.GetLocalBindAddress(), LocalBindPort: int(u.GetLocalBindPort()),
			LocalBindSocketPath: u.GetLocalBindSocketPath(), LocalBindSocketMode: u.GetLocalBindSocketMode(),
			Config: orNil(u.GetConfig().AsMap()), MeshGateway: eventMeshGateway(u.GetMeshGateway()),
			CentrallyConfigured:  u.GetCentrallyConfigured(),
			DestinationNamespace: u.GetDestinationNamespace(), DestinationPartition: u.GetDestinationPartition(),
		})
	}
	return out
}

func eventMeshGateway(g *subscribe.MeshGatewayConfig) chain.MeshGateway {
	return chain.MeshGateway{Mode: chain.MeshGatewayMode(g.GetMode())}
}

func eventLocality(l *subscribe.Locality) *facts.Locality {
	if l.GetRegion() == "" && l.GetZone() == "" {
		return nil
	}
	return &facts.Locality{Region: l.GetRegion(), Zone: l.GetZone()}
}
