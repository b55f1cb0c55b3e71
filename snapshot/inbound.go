package snapshot

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// PublicListener begins the name of the listener by which the mesh reaches a sidecar's service. It is also
// how Envoy's statistics call it.
const PublicListener = "public_listener"

// LocalApp is the cluster of the service that a sidecar stands before.
const LocalApp = "local_app"

// anyAddress is where a sidecar listens whose registration names no address.
const anyAddress = "0.0.0.0"

// localAddress is where a service listens whose sidecar's registration does not say.
const localAddress = "127.0.0.1"

// InboundKey is the part of a plan by which the mesh reaches the service that a sidecar stands before: all
// that its registration says of that.
type InboundKey struct {
	// Service is the one that the sidecar stands before.
	Service string
	// Address and Port are the sidecar's own.
	Address string
	Port    int
	Local   LocalService
	// Wasm lets the sidecar end open connections that intentions have come to forbid.
	Wasm bool
	// Config is what the registration says, without central configuration.
	Config InboundConfig
	// CheckSource is the address from which checks come, where a path is exposed for them.
	CheckSource string

	exposed string // chain.Expose as JSON
	notes   string // on what of the configuration is not understood
}

// LocalService is where a service listens: at an address, or on a socket.
type LocalService struct {
	Address    string
	Port       int
	SocketPath string
}

// inboundKey takes from a registration what concerns the service behind it.
func inboundKey(c Client, in *facts.Instance) InboundKey {
	p := in.Service.Proxy
	k := InboundKey{
		Wasm:    c.Wasm,
		Service: p.DestinationServiceName,
		Address: in.Service.Address, Port: in.Service.Port,
		Local: LocalService{SocketPath: p.LocalServiceSocketPath},
	}
	if k.Local.SocketPath == "" {
		k.Local.Port = p.LocalServicePort
	}
	k.Local.Address = cmp.Or(p.LocalServiceAddress, localAddress)
	var notes []string
	k.Config, notes = fromProxyConfig(p.Config)
	k.notes = strings.Join(notes, "\n")
	if p.Expose.Checks || len(p.Expose.Paths) > 0 {
		text, _ := json.Marshal(p.Expose) // nothing in it can fail
		k.exposed = string(text)
	}
	for _, path := range p.Expose.Paths {
		if path.ParsedFromCheck {
			k.CheckSource = in.Node.Address
		}
	}
	return k
}

// inbound plans how the mesh reaches a service.
type inbound struct {
	*planner
	key      InboundKey
	out      *Part
	config   InboundConfig
	exposed  chain.Expose
	clusters map[string]LocalClusterKey
	taken    map[int]string // listeners by their ports
}

func (k InboundKey) plan(p *planner) *Part {
	i := &inbound{
		planner: p, key: k, out: &Part{Name: PublicListener},
		clusters: map[string]LocalClusterKey{}, taken: map[int]string{},
	}
	i.merge()
	listener := i.listener()
	intentions := IntentionsKey{Service: k.Service, TrustDomain: p.cfg.TrustDomain, Layer7: chain.IsLayer7(listener.Protocol)}
	i.out.needs = []facts.Topic{facts.DefaultIntention()}
	if i.out.Pending = intentions.pending(p.r); i.out.Pending != "" {
		return i.out
	}
	if reason := i.impossible(listener); reason != "" {
		i.out.Missing, i.out.broken = []string{reason}, true
		return i.out
	}
	i.out.Notes = append(i.out.Notes, intentions.notes(p.r)...)
	for _, layer7 := range []bool{false, true} {
		// Of both kinds: after a change of the protocol what is open goes on by the one before, for minutes.
		rules := intentions
		rules.Layer7 = layer7
		i.add(IntentionsName(layer7), rules)
	}
	if k.Wasm {
		i.add(EvictionConfig, EvictionKey{intentions})
	} else {
		i.note("this Envoy has no WebAssembly: what an intention comes to forbid holds for new connections and requests, and what is open goes on")
	}
	i.serve(listener)
	return i.out
}

// merge adds to what the registration says what central configuration does. Consul has done so already in
// what it tells of a registration, and then nothing is added.
func (i *inbound) merge() {
	i.config = i.key.Config
	if i.key.notes != "" {
		i.out.Notes = strings.Split(i.key.notes, "\n")
	}
	if i.key.exposed != "" {
		_ = json.Unmarshal([]byte(i.key.exposed), &i.exposed) // it is our own
	}
	if d, ok := i.r.Entry(chain.KindServiceDefaults, i.key.Service).(*chain.ServiceDefaults); ok {
		i.config = i.config.or(fromServiceDefaults(d))
		i.exposed = exposedOr(i.exposed, d.Expose)
	}
	if d, ok := i.r.Entry(chain.KindProxyDefaults, chain.GlobalName).(*chain.ProxyDefaults); ok {
		config, _ := fromProxyConfig(d.Config)
		i.config = i.config.or(config)
		i.exposed = exposedOr(i.exposed, d.Expose)
	}
}

// exposedOr is what is exposed with what is set in neither of its fields taken from d.
func exposedOr(e, d chain.Expose) chain.Expose {
	e.Checks = e.Checks || d.Checks
	if len(e.Paths) == 0 {
		e.Paths = d.Paths
	}
	return e
}

// listener is the one by which the mesh reaches the service.
func (i *inbound) listener() PublicListenerKey {
	l := PublicListenerKey{
		Address:  cmp.Or(i.config.BindAddress, i.key.Address, anyAddress),
		Port:     cmp.Or(i.config.BindPort, i.key.Port),
		Protocol: cmp.Or(i.config.Protocol, "tcp"),
		Evicts:   i.key.Wasm,
		Limits:   InboundLimits{MaxConnections: i.config.MaxConnections, ExactBalance: i.config.balanced()},

		AccessLogs: accessLogs(i.r),
	}
	mesh, _ := i.r.Entry(chain.KindMesh, chain.MeshName).(*chain.Mesh)
	if mesh != nil && mesh.TLS != nil {
		l.TLS = tlsParameters(mesh.TLS.Incoming)
	}
	if !chain.IsLayer7(l.Protocol) {
		return l
	}
	l.HTTP = InboundHTTP{
		RequestTimeout: i.config.RequestTimeout, IdleTimeout: i.config.IdleTimeout,
		MaxRequestHeadersKB: i.config.MaxRequestHeadersKB,
	}
	if mesh != nil && mesh.HTTP != nil {
		l.HTTP.SanitizeClientCert = mesh.HTTP.SanitizeXForwardedClientCert
		if in := mesh.HTTP.Incoming; in != nil && in.RequestNormalization != nil {
			l.HTTP.Normalization = *in.RequestNormalization
		}
	}
	return l
}

// impossible says why the listener cannot be; empty when it can.
func (i *inbound) impossible(l PublicListenerKey) string {
	switch {
	case l.Port == 0:
		return "the registration of the sidecar has no port: set it, or bind_port in its configuration"
	case !isIP(l.Address):
		return fmt.Sprintf("the sidecar cannot listen at %q, which is not an IP address: set bind_address in its configuration", l.Address)
	case i.key.Local.SocketPath == "" && !isIP(i.key.Local.Address):
		return fmt.Sprintf("the service's local_service_address %q is not an IP address: write one, such as %s", i.key.Local.Address, localAddress)
	}
	return ""
}

func isIP(address string) bool {
	_, err := netip.ParseAddr(address)
	return err == nil
}

// serve adds the listeners and the clusters behind them.
func (i *inbound) serve(l PublicListenerKey) {
	if i.key.Local.SocketPath == "" && i.key.Local.Port == 0 {
		i.note("the registration of the sidecar has no local_service_port, so that nothing answers for the service")
	}
	i.cluster(LocalClusterKey{Name: LocalApp, At: i.key.Local, Protocol: l.Protocol})
	name := InboundListenerName(PublicListener, l.Address, l.Port)
	i.taken[l.Port] = name
	i.add(name, l)
	i.expose(l)
	for _, name := range slices.Sorted(maps.Keys(i.clusters)) {
		i.add(name, i.clusters[name])
	}
}

// defaultConnectTimeout is how long a sidecar tries to reach its service.
const defaultConnectTimeout = 5 * time.Second

// cluster adds a cluster of the service.
func (i *inbound) cluster(k LocalClusterKey) {
	k.ConnectTimeout = cmp.Or(i.config.ConnectTimeout, defaultConnectTimeout)
	k.MaxConnections = i.config.MaxConnections
	i.clusters[k.Name] = k
}

func (i *inbound) add(name string, key Key) {
	i.out.Resources = append(i.out.Resources, Ref{Name: name, Key: key})
}

func (i *inbound) note(text string) { i.out.Notes = append(i.out.Notes, text) }

// InboundListenerName is the name of a listener by which a sidecar's service is reached, as Consul forms it.
func InboundListenerName(prefix, address string, port int) string {
	return prefix + ":" + net.JoinHostPort(address, strconv.Itoa(port))
}
