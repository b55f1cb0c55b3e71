package xds

import (
	"encoding/json"
	"fmt"
	"net"
	"unicode"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/catenary-mesh/catenary/internal/bootstrap"
	"github.com/catenary-mesh/catenary/snapshot"
)

// identity is what is kept of a node: Envoy's own is about 61 kB because of its list of extensions.
type identity struct {
	client  snapshot.Client
	version string
}

// maxNodeField bounds each text of a node that is kept: node.id and metadata.node_name.
const maxNodeField = 1024

// identify reads who a client says it is. A node with metadata.catenary brings its upstreams; any
// other is a sidecar, known by its registration.
func identify(node *corev3.Node, peer net.Addr) (identity, error) {
	if node.GetId() == "" {
		return identity{}, refuse("the first request must name the node: node.id is empty")
	}
	if err := checkField("node.id", node.GetId()); err != nil {
		return identity{}, err
	}
	id := identity{version: clip(version(node)), client: snapshot.Client{ID: node.GetId()}}
	if host, _, err := net.SplitHostPort(peer.String()); err == nil {
		id.client.Address = host
	}
	id.client.Wasm = runsWasm(node.GetExtensions())
	id.client.Dialect = dialectOf(node.GetUserAgentName())
	fields := node.GetMetadata().GetFields()
	id.client.Node = fields["node_name"].GetStringValue()
	if err := checkField("node.metadata.node_name", id.client.Node); err != nil {
		return identity{}, err
	}
	declared, ok := fields[bootstrap.MetadataKey]
	if !ok && id.client.Dialect.GRPC() {
		if name := node.GetCluster(); bootstrap.CheckName("service", name) == nil {
			id.client.Service = name // it may be anything else: nobody has to register such a client
		}
		return id, nil
	}
	if !ok {
		// The name becomes part of what is asked of the source.
		if id.client.Service = node.GetCluster(); id.client.Service == "" {
			return id, nil
		}
		if err := bootstrap.CheckName("service", id.client.Service); err != nil {
			return identity{}, refuse("node %q: node.cluster: %v", id.client.ID, err)
		}
		return id, nil
	}
	data, err := json.Marshal(declared.AsInterface())
	if err != nil {
		return identity{}, refuse("node %q: metadata %s: %v", node.GetId(), bootstrap.MetadataKey, err)
	}
	m, err := bootstrap.ParseMetadata(data)
	if err != nil {
		return identity{}, refuse("node %q: %v", node.GetId(), err)
	}
	id.client.Declared = true
	id.client.Service, id.client.Mesh = m.Service, m.Mesh
	for _, u := range m.Upstreams {
		id.client.Upstreams = append(id.client.Upstreams, snapshot.Upstream{
			Service: u.Service, Datacenter: u.Datacenter,
			BindAddress: u.BindAddress, BindPort: u.BindPort,
		})
	}
	return id, nil
}

// checkField refuses texts that a log, a table or a URL cannot show.
func checkField(what, text string) error {
	if len(text) > maxNodeField {
		return refuse("%s %.64q... has %d bytes, more than the %d allowed", what, text, len(text), maxNodeField)
	}
	for _, r := range text {
		if !unicode.IsPrint(r) {
			return refuse("%s %q has the character %q, which cannot be printed", what, text, r)
		}
	}
	return nil
}

// traits returns what a session reads of a node. The metadata can take megabytes.
func traits(node *corev3.Node) *corev3.Node {
	return &corev3.Node{
		UserAgentName: clip(node.GetUserAgentName()), UserAgentVersionType: node.GetUserAgentVersionType(),
		ClientFeatures: node.GetClientFeatures(),
	}
}

func version(node *corev3.Node) string {
	if v := node.GetUserAgentBuildVersion().GetVersion(); v != nil {
		return fmt.Sprintf("%d.%d.%d", v.GetMajorNumber(), v.GetMinorNumber(), v.GetPatch())
	}
	return node.GetUserAgentVersion()
}

// Identify reads who a client says it is, for services beside these that take a node. The error is a gRPC status.
func Identify(node *corev3.Node, peer net.Addr) (snapshot.Client, error) {
	id, err := identify(node, peer)
	return id.client, err
}
