package bootstrap

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode"
)

// What an [EnvoyConfig] that leaves the field empty gets.
const (
	DefaultGRPCAddr  = "127.0.0.1:18000"
	DefaultAdminBind = "127.0.0.1:19000"
)

// EnvoyConfig is what an Envoy's bootstrap is made from. Service is required.
type EnvoyConfig struct {
	// Service is the service the proxy speaks for.
	Service string
	// Upstreams are what it wants to reach, each at a port of its own.
	Upstreams []Upstream
	// ProxyID names the proxy in the control plane's status; empty means the service's name and
	// "-proxy". Proxies that share one ID are served alike, but their status is hard to tell apart.
	ProxyID string
	// GRPCAddr is HOST:PORT of the control plane; empty means [DefaultGRPCAddr].
	GRPCAddr string
	// AdminBind is the IP:PORT of Envoy's own admin API; empty means [DefaultAdminBind]. With port 0
	// Envoy chooses one.
	AdminBind string
	// Token goes with every request, as the header x-consul-token; empty sends none.
	Token Token
	// GRPCCA are the PEM certificates to verify the control plane by, which become part of the bootstrap;
	// empty means plaintext.
	GRPCCA string
	// Sidecar is set for a registered sidecar, which has no Upstreams here.
	Sidecar *Sidecar
	// LoadReports has it report what becomes of its requests.
	LoadReports bool
	// HDS has it probe endpoints for the control plane.
	HDS bool
	// Region and Zone are where it runs; empty where nobody says so.
	Region, Zone string
	// SotW asks for the state of the world variant of xDS instead of delta.
	SotW bool
}

// Sidecar is what the bootstrap of a registered sidecar says beyond that of other proxies.
type Sidecar struct {
	// Node is the name of the node it is registered on, and Datacenter where that is.
	Node, Datacenter string
	Telemetry        Telemetry
	// OmitDeprecatedTags leaves out the tags of statistics that Consul had before 1.9, for dashboards of
	// then.
	OmitDeprecatedTags bool
}

// Token is an ACL token. It prints as "[redacted]"; the bootstrap holds its text.
type Token string

// String implements [fmt.Stringer].
func (Token) String() string { return "[redacted]" }

// GoString implements [fmt.GoStringer].
func (Token) GoString() string { return "[redacted]" }

// Envoy returns the bootstrap as indented JSON. Equal configurations give equal bytes. It holds the
// token, so whoever stores it should keep it from other users.
func Envoy(cfg EnvoyConfig) ([]byte, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	server, err := parseEndpoint("the gRPC address", cfg.GRPCAddr)
	if err != nil {
		return nil, err
	}
	admin, err := parseEndpoint("the admin address", cfg.AdminBind)
	if err != nil {
		return nil, err
	}
	if !admin.isIP() {
		return nil, fmt.Errorf("the admin address %q has a name: Envoy binds to an IP address, such as %s", cfg.AdminBind, DefaultAdminBind)
	}
	if server.port == 0 {
		return nil, fmt.Errorf("the gRPC address %q has port 0: name the port Catenary listens on", cfg.GRPCAddr)
	}
	whole, err := bootstrapOf(cfg, server, admin)
	if err != nil {
		return nil, err
	}
	return encode(whole)
}

func encode(whole any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(whole); err != nil {
		return nil, fmt.Errorf("encode the bootstrap: %w", err)
	}
	return out.Bytes(), nil
}

func (c EnvoyConfig) withDefaults() EnvoyConfig {
	if c.ProxyID == "" {
		c.ProxyID = c.Service + "-proxy"
	}
	if c.GRPCAddr == "" {
		c.GRPCAddr = DefaultGRPCAddr
	}
	if c.AdminBind == "" {
		c.AdminBind = DefaultAdminBind
	}
	if c.Upstreams == nil {
		c.Upstreams = []Upstream{}
	}
	return c
}

func (c EnvoyConfig) validate() error {
	if strings.ContainsFunc(c.ProxyID, unicode.IsControl) {
		return fmt.Errorf("the proxy ID %q has a control character", c.ProxyID)
	}
	// The token is not in the message: it is a secret even where it is malformed.
	if strings.ContainsFunc(string(c.Token), func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("the token has a character that no header can carry: look for spaces and line breaks in it")
	}
	if c.GRPCCA != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(c.GRPCCA)) {
		return fmt.Errorf("there is no certificate in what the control plane is to be verified by: want PEM")
	}
	return c.metadata().Validate()
}

func (c EnvoyConfig) metadata() Metadata {
	return Metadata{Service: c.Service, Upstreams: c.Upstreams}
}

// endpoint is an address to dial or to listen at.
type endpoint struct {
	host string
	port int
}

func parseEndpoint(what, text string) (endpoint, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil || host == "" {
		return endpoint{}, fmt.Errorf("%s %q is not HOST:PORT, such as 127.0.0.1:18000 or [::1]:18000", what, text)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return endpoint{}, fmt.Errorf("%s %q: the port %q is not a number up to 65535", what, text, port)
	}
	// Envoy compares the address with a certificate's as text, in the canonical form.
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.String()
	}
	return endpoint{host: host, port: int(n)}, nil
}

func (e endpoint) isIP() bool {
	_, err := netip.ParseAddr(e.host)
	return err == nil
}
