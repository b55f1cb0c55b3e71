package entry

import (
	"fmt"
	"reflect"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// The node that services of files are on. Consul would have the agent's own.
const (
	nodeName    = "files"
	nodeAddress = "127.0.0.1"
)

// firstSidecarPort is where Consul begins to give ports to sidecars that ask for none.
const firstSidecarPort = 21000

// definition is a service definition as Consul's agent reads it.
type definition struct {
	Kind              string
	ID                string
	Name              string
	Tags              []string
	Address           string
	SocketPath        string
	Port              int
	TaggedAddresses   map[string]facts.Address
	Meta              map[string]string
	Weights           *facts.Weights
	Check             *check
	Checks            []check
	Token             string
	EnableTagOverride bool
	Locality          *facts.Locality
	Connect           *connect
	Proxy             *proxy
}

type connect struct {
	Native         bool
	SidecarService *definition
}

type proxy struct {
	DestinationServiceName string
	DestinationServiceID   string
	LocalServiceAddress    string
	LocalServicePort       int
	LocalServiceSocketPath string
	Mode                   string
	TransparentProxy       *chain.TransparentProxy
	MutualTLSMode          string
	Config                 map[string]any
	Upstreams              []upstream
	MeshGateway            chain.MeshGateway
	Expose                 chain.Expose
	AccessLogs             *chain.AccessLogs
	EnvoyExtensions        []chain.EnvoyExtension
}

type upstream struct {
	DestinationType      string
	DestinationName      string
	DestinationNamespace string
	DestinationPartition string
	DestinationPeer      string
	Datacenter           string
	LocalBindAddress     string
	LocalBindPort        int
	LocalBindSocketPath  string
	LocalBindSocketMode  string
	Config               map[string]any
	MeshGateway          chain.MeshGateway
}

// check is what counts of a check: nobody runs checks of files, so their status is as written. Like
// Consul's, a check without a status is critical.
type check struct {
	ID      string
	CheckID string
	Name    string
	Notes   string
	Status  facts.CheckStatus
}

// aliases are the settings that say how an agent would run the check. They are accepted and mean
// nothing here.
func (check) aliases() map[string]string {
	keys := map[string]string{}
	for _, k := range []string{
		"args", "script_args", "http", "h2ping", "h2ping_use_tls", "grpc", "grpc_use_tls", "tcp",
		"tcp_use_tls", "udp", "interval", "timeout", "ttl", "header", "method", "body",
		"disable_redirects", "tls_server_name", "tls_skip_verify", "alias_node", "alias_service",
		"docker_container_id", "shell", "os_service", "output", "output_max_size", "proxy_http",
		"proxy_grpc", "success_before_passing", "failures_before_warning",
		"failures_before_critical", "deregister_critical_service_after", "service_id", "token",
	} {
		keys[k] = ""
	}
	return keys
}

// service decodes a service definition: its instance, and that of its sidecar.
func (s *sink) service(n node) []*facts.Instance {
	before := len(s.problems)
	var def definition
	d := &decoder{sink: s, entry: "service", lines: map[string]int{}}
	if o, ok := n.value.(*object); ok {
		name, _ := o.get("name")
		label, _ := text(name)
		d.entry = "service/" + label
	}
	d.decode("", n, reflect.ValueOf(&def).Elem())
	d.validate(&def)
	for _, p := range s.problems[before:] {
		if p.Severity == "error" {
			return nil
		}
	}
	instances := []*facts.Instance{def.instance()}
	if def.Connect != nil && def.Connect.SidecarService != nil {
		instances = append(instances, def.sidecar().instance())
	}
	return instances
}

func (d *decoder) validate(def *definition) {
	if def.Name == "" {
		d.add("error", CodeService, d.lineOf("Name"), d.entry, "Name", "a service needs a name")
	}
	if def.Port < 0 || def.Port > 65535 {
		d.add("error", CodeService, d.lineOf("Port"), d.entry, "Port", fmt.Sprintf("%d is not a port", def.Port))
	}
	if def.Kind != "" && def.Kind != "connect-proxy" {
		d.add("warning", CodeService, d.lineOf("Kind"), d.entry, "Kind", fmt.Sprintf(
			"services of kind %s have no part in chains yet", def.Kind))
	}
	if def.Kind == "connect-proxy" && (def.Proxy == nil || def.Proxy.DestinationServiceName == "") {
		d.add("error", CodeService, d.lineOf("Proxy"), d.entry, "Proxy.DestinationServiceName",
			"a sidecar must name the service it stands for")
	}
	for i, c := range def.allChecks() {
		switch c.Status {
		case "", facts.StatusPassing, facts.StatusWarning, facts.StatusCritical:
		default:
			d.add("error", CodeService, d.lineOf(fmt.Sprintf("Checks[%d].Status", i)), d.entry,
				fmt.Sprintf("Checks[%d].Status", i), fmt.Sprintf(
					"%q is not a status: want passing, warning or critical", c.Status))
		}
	}
}

func (def *definition) allChecks() []check {
	if def.Check == nil {
		return def.Checks
	}
	return append([]check{*def.Check}, def.Checks...)
}

func (def *definition) id() string {
	if def.ID != "" {
		return def.ID
	}
	return def.Name
}

func (def *definition) instance() *facts.Instance {
	in := &facts.Instance{
		Node: facts.Node{Node: nodeName, Address: nodeAddress},
		Service: facts.Service{
			Kind: def.Kind, ID: def.id(), Service: def.Name, Tags: def.Tags,
			Address: def.Address, Port: def.Port, TaggedAddresses: def.TaggedAddresses,
			Meta: def.Meta, Weights: facts.Weights{Passing: 1, Warning: 1},
			EnableTagOverride: def.EnableTagOverride, Locality: def.Locality,
		},
	}
	if def.Weights != nil {
		in.Service.Weights = *def.Weights
	}
	if def.Connect != nil {
		in.Service.Connect.Native = def.Connect.Native
	}
	if def.Proxy != nil {
		in.Service.Proxy = def.Proxy.fact()
	}
	for i, c := range def.allChecks() {
		in.Checks = append(in.Checks, c.fact(def, i))
	}
	return in
}

// fact names a check as Consul's agent does: service:<id>, with a number from the second one on.
func (c check) fact(def *definition, i int) facts.Check {
	out := facts.Check{
		Node: nodeName, CheckID: c.CheckID, Name: c.Name, Notes: c.Notes, Status: c.Status,
		ServiceID: def.id(), ServiceName: def.Name, ServiceTags: def.Tags,
	}
	if out.CheckID == "" {
		out.CheckID = c.ID
	}
	if out.CheckID == "" {
		out.CheckID = "service:" + def.id()
		if i > 0 {
			out.CheckID = fmt.Sprintf("service:%s:%d", def.id(), i+1)
		}
	}
	if out.Status == "" {
		out.Status = facts.StatusCritical
	}
	return out
}

func (p *proxy) fact() *facts.Proxy {
	out := &facts.Proxy{
		DestinationServiceName: p.DestinationServiceName, DestinationServiceID: p.DestinationServiceID,
		LocalServiceAddress: p.LocalServiceAddress, LocalServicePort: p.LocalServicePort,
		LocalServiceSocketPath: p.LocalServiceSocketPath, Mode: p.Mode, Config: p.Config,
		MeshGateway: p.MeshGateway, Expose: p.Expose,
	}
	for _, u := range p.Upstreams {
		out.Upstreams = append(out.Upstreams, facts.Upstream{
			DestinationType: u.DestinationType, DestinationName: u.DestinationName,
			DestinationNamespace: u.DestinationNamespace, DestinationPartition: u.DestinationPartition,
			DestinationPeer: u.DestinationPeer, Datacenter: u.Datacenter,
			LocalBindAddress: u.LocalBindAddress, LocalBindPort: u.LocalBindPort,
			LocalBindSocketPath: u.LocalBindSocketPath, LocalBindSocketMode: u.LocalBindSocketMode,
			Config: u.Config, MeshGateway: u.MeshGateway,
		})
	}
	return out
}

// sidecar fills in what Consul fills in for connect { sidecar_service { } }.
func (def *definition) sidecar() *definition {
	side := *def.Connect.SidecarService
	if side.Name == "" {
		side.Name = def.Name + "-sidecar-proxy"
	}
	if side.ID == "" {
		side.ID = def.id() + "-sidecar-proxy"
	}
	side.Kind = "connect-proxy"
	if side.Port == 0 {
		side.Port = firstSidecarPort
	}
	if side.Address == "" {
		side.Address = def.Address
	}
	if side.Meta == nil {
		side.Meta = def.Meta
	}
	if side.Tags == nil {
		side.Tags = def.Tags
	}
	if side.Locality == nil {
		side.Locality = def.Locality
	}
	var p proxy
	if side.Proxy != nil {
		p = *side.Proxy
	}
	p.DestinationServiceName, p.DestinationServiceID = def.Name, def.id()
	if p.LocalServicePort == 0 && p.LocalServiceSocketPath == "" {
		p.LocalServiceAddress, p.LocalServicePort = "127.0.0.1", def.Port
	}
	side.Proxy = &p
	// Consul checks that the sidecar listens, and ties its health to that of its service.
	if side.Check == nil && side.Checks == nil {
		side.Checks = def.allChecks()
		for i := range side.Checks {
			side.Checks[i].ID, side.Checks[i].CheckID = "", ""
		}
	}
	return &side
}
