package entry

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// service decodes a service definition: its instance, and that of its sidecar. There are none when it
// has an error.
func (s *sink) service(n node) []*facts.Instance {
	before := len(s.problems)
	var def definition
	d := &decoder{sink: s, entry: "service", lines: map[string]int{}}
	if o, ok := n.single().value.(*object); ok {
		name, _ := o.get("name")
		label, _ := text(name)
		d.entry = "service/" + label
	}
	d.decode("", n, reflect.ValueOf(&def).Elem())
	if s.hasError(before) {
		return nil
	}
	d.validate("", &def)
	var side *definition
	if def.Connect != nil && def.Connect.SidecarService != nil {
		side = def.sidecar()
		d.validate("Connect.SidecarService", side)
	}
	if s.hasError(before) {
		return nil
	}
	if side == nil {
		return []*facts.Instance{def.instance()}
	}
	return []*facts.Instance{def.instance(), side.instance()}
}

// validate refuses what Consul would refuse. path is where in the file the definition is.
func (d *decoder) validate(path string, def *definition) {
	refuse := func(field, format string, args ...any) {
		field = join(path, field)
		d.add("error", CodeService, d.lineOf(field), d.entry, field, fmt.Sprintf(format, args...))
	}
	if def.Name == "" {
		refuse("Name", "a service needs a name")
	}
	if def.Port < 0 || def.Port > 65535 {
		refuse("Port", "%d is not a port", def.Port)
	}
	if w := def.Weights.fact(); w.Passing < 0 || w.Warning < 0 {
		refuse("Weights", "a weight is 0 or more")
	}
	if def.Kind != "" && def.Kind != kindProxy {
		d.add("warning", CodeService, d.lineOf(join(path, "Kind")), d.entry, join(path, "Kind"),
			fmt.Sprintf("services of kind %s have no part in chains yet", def.Kind))
	}
	if def.Kind == kindProxy && (def.Proxy == nil || def.Proxy.DestinationServiceName == "") {
		refuse("Proxy.DestinationServiceName", "a sidecar must name the service it stands for")
	}
	if path != "" && def.Connect != nil && def.Connect.SidecarService != nil {
		refuse("Connect.SidecarService", "a sidecar has no sidecar")
	}
	if def.Check != nil && !def.Check.valid() {
		refuse("Check.Status", statusMessage, def.Check.Status)
	}
	for i, c := range def.Checks {
		if !c.valid() {
			refuse(fmt.Sprintf("Checks[%d].Status", i), statusMessage, c.Status)
		}
	}
}

const statusMessage = "%q is not a status: want passing, warning or critical"

func (c check) valid() bool {
	return slices.Contains([]facts.CheckStatus{"", facts.StatusPassing, facts.StatusWarning, facts.StatusCritical}, c.Status)
}

func (w weights) fact() facts.Weights {
	out := facts.Weights{Passing: 1, Warning: 1}
	if w.Passing != nil {
		out.Passing = *w.Passing
	}
	if w.Warning != nil {
		out.Warning = *w.Warning
	}
	return out
}

func (def *definition) allChecks() []check {
	if def.Check == nil {
		return slices.Clone(def.Checks)
	}
	return append([]check{*def.Check}, def.Checks...)
}

func (def *definition) id() string { return cmp.Or(def.ID, def.Name) }

func (def *definition) node() string { return cmp.Or(def.Node, nodeName) }

func (def *definition) instance() *facts.Instance {
	in := &facts.Instance{
		Node: facts.Node{Node: def.node(), Address: nodeAddress},
		Service: facts.Service{
			Kind: def.Kind, ID: def.id(), Service: def.Name, Tags: def.Tags,
			Address: def.Address, Port: def.Port, TaggedAddresses: def.TaggedAddresses,
			Meta: def.Meta, Weights: def.Weights.fact(),
			EnableTagOverride: def.EnableTagOverride, Locality: def.Locality,
		},
	}
	if def.Connect != nil {
		in.Service.Connect.Native = def.Connect.Native
	}
	if def.Proxy != nil {
		in.Service.Proxy = def.Proxy.fact()
	}
	checks := def.allChecks()
	for i, c := range checks {
		in.Checks = append(in.Checks, c.fact(def, i, len(checks)))
	}
	return in
}

// fact names a check as Consul's agent does: service:<id>, with a number when there are several.
func (c check) fact(def *definition, i, n int) facts.Check {
	id := "service:" + def.id()
	if n > 1 {
		id = fmt.Sprintf("%s:%d", id, i+1)
	}
	return facts.Check{
		Node: def.node(), CheckID: cmp.Or(c.CheckID, c.ID, id),
		Name:  cmp.Or(c.Name, fmt.Sprintf("Service '%s' check", def.Name)),
		Notes: c.Notes, Status: cmp.Or(c.Status, facts.StatusCritical),
		ServiceID: def.id(), ServiceName: def.Name, ServiceTags: def.Tags, Definition: c.definition(),
	}
}

// definition is how an agent would do the check; nil for a kind that nobody else could do.
func (c check) definition() *facts.CheckDefinition {
	if c.HTTP == "" && c.TCP == "" && c.GRPC == "" {
		return nil
	}
	return &facts.CheckDefinition{
		HTTP: c.HTTP, TCP: c.TCP, GRPC: c.GRPC, Method: c.Method, Body: c.Body, Header: c.Header,
		TLS:      c.TCP != "" && c.TCPUseTLS || c.GRPC != "" && c.GRPCUseTLS,
		Interval: c.Interval, Timeout: c.Timeout,
	}
}

// fact is the proxy block of a registration. A type of upstream that is not given is service.
func (p *proxy) fact() *facts.Proxy {
	out := &facts.Proxy{
		DestinationServiceName: p.DestinationServiceName, DestinationServiceID: p.DestinationServiceID,
		LocalServiceAddress: p.LocalServiceAddress, LocalServicePort: p.LocalServicePort,
		LocalServiceSocketPath: p.LocalServiceSocketPath, Mode: p.Mode, Config: p.Config,
		MeshGateway: p.MeshGateway, Expose: p.Expose,
	}
	for _, u := range p.Upstreams {
		out.Upstreams = append(out.Upstreams, facts.Upstream{
			DestinationType: cmp.Or(u.DestinationType, "service"), DestinationName: u.DestinationName,
			DestinationNamespace: u.DestinationNamespace, DestinationPartition: u.DestinationPartition,
			DestinationPeer: u.DestinationPeer, Datacenter: u.Datacenter,
			LocalBindAddress: u.LocalBindAddress, LocalBindPort: u.LocalBindPort,
			LocalBindSocketPath: u.LocalBindSocketPath, LocalBindSocketMode: u.LocalBindSocketMode,
			Config: u.Config, MeshGateway: u.MeshGateway,
		})
	}
	return out
}

// sidecar fills in what Consul fills in for connect { sidecar_service { } }. Its port may stay 0: who
// knows all ports that are taken gives it one.
func (def *definition) sidecar() *definition {
	side := *def.Connect.SidecarService
	side.Kind, side.Node = kindProxy, def.Node
	side.Name = cmp.Or(side.Name, def.Name+"-sidecar-proxy")
	side.ID = cmp.Or(side.ID, def.id()+"-sidecar-proxy")
	side.Address = cmp.Or(side.Address, def.Address)
	side.Locality = cmp.Or(side.Locality, def.Locality)
	if side.Meta == nil {
		side.Meta = def.Meta
	}
	if side.Tags == nil {
		side.Tags = def.Tags
	}
	var p proxy
	if side.Proxy != nil {
		p = *side.Proxy
	}
	p.DestinationServiceName, p.DestinationServiceID = def.Name, def.id()
	if p.LocalServiceSocketPath == "" {
		p.LocalServiceAddress = cmp.Or(p.LocalServiceAddress, "127.0.0.1")
		p.LocalServicePort = cmp.Or(p.LocalServicePort, def.Port)
	}
	side.Proxy = &p
	if side.Check == nil && side.Checks == nil {
		side.Check = def.alias(side.ID)
	}
	return &side
}

// alias is the check that ties the health of a sidecar to that of its service. Consul also tries
// whether the sidecar listens, which nobody does here.
func (def *definition) alias(sidecar string) *check {
	status := facts.StatusPassing
	for _, c := range def.allChecks() {
		switch cmp.Or(c.Status, facts.StatusCritical) {
		case facts.StatusCritical:
			status = facts.StatusCritical
		case facts.StatusWarning:
			if status == facts.StatusPassing {
				status = facts.StatusWarning
			}
		default:
		}
	}
	return &check{ID: "service:" + sidecar + ":2", Name: "Connect Sidecar Aliasing " + def.id(), Status: status}
}
