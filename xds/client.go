package xds

import (
	"encoding/json"
	"fmt"
	"net"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/internal/bootstrap"
	"github.com/catenary-mesh/catenary/snapshot"
)

// identity is what is kept of a node: Envoy's own is about 61 kB because of its list of extensions.
type identity struct {
	client  snapshot.Client
	version string
}

// identify reads who a client says it is. A node with metadata.catenary brings its upstreams; any
// other is a sidecar, known by its registration.
func identify(node *corev3.Node, peer net.Addr) (identity, error) {
	if node.GetId() == "" {
		return identity{}, status.Error(codes.InvalidArgument, "the first request must name the node: node.id is empty")
	}
	id := identity{version: version(node), client: snapshot.Client{ID: node.GetId(), Service: node.GetCluster()}}
	if host, _, err := net.SplitHostPort(peer.String()); err == nil {
		id.client.Address = host
	}
	fields := node.GetMetadata().GetFields()
	id.client.Node = fields["node_name"].GetStringValue()
	declared, ok := fields[bootstrap.MetadataKey]
	if !ok {
		return id, nil
	}
	data, err := json.Marshal(declared.AsInterface())
	if err != nil {
		return identity{}, status.Errorf(codes.InvalidArgument, "node %q: metadata %s: %v", node.GetId(), bootstrap.MetadataKey, err)
	}
	m, err := bootstrap.ParseMetadata(data)
	if err != nil {
		return identity{}, status.Errorf(codes.InvalidArgument, "node %q: %v", node.GetId(), err)
	}
	id.client.Declared = true
	id.client.Service = m.Service
	for _, u := range m.Upstreams {
		id.client.Upstreams = append(id.client.Upstreams, snapshot.Upstream{
			Service: u.Service, Datacenter: u.Datacenter,
			BindAddress: u.BindAddress, BindPort: u.BindPort,
		})
	}
	return id, nil
}

func version(node *corev3.Node) string {
	if v := node.GetUserAgentBuildVersion().GetVersion(); v != nil {
		return fmt.Sprintf("%d.%d.%d", v.GetMajorNumber(), v.GetMinorNumber(), v.GetPatch())
	}
	return node.GetUserAgentVersion()
}
