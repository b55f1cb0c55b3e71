package bootstrap

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// LinkerdConfig is what the environment of a Linkerd proxy is made from.
type LinkerdConfig struct {
	// GRPCAddr is HOST:PORT of the control plane; empty means [DefaultGRPCAddr].
	GRPCAddr string
	// ServerName is the name in the certificate of a control plane that is not on loopback: proxies speak to such
	// a one over mutual TLS only.
	ServerName string
	// Node and Zone say where the proxy runs; empty ones are not said.
	Node, Zone string
	// Suffixes are those of the names that the proxy asks for; none means consul.
	Suffixes []string
	// Networks are those of the addresses that the proxy asks for; none means [DefaultLinkerdNetworks].
	Networks []string
	// SPIRESocket is where the proxy gets its certificate from, as Identity; empty leaves that to be added.
	SPIRESocket, Identity string
	// IdentityName is the name by which other proxies call this one over TLS. An Identity of the form of Consul's
	// has one, by which catenary has them call it; any other needs one.
	IdentityName string
}

// DefaultLinkerdNetworks are those of private addresses, and that of the virtual IPs of Consul.
const DefaultLinkerdNetworks = "10.0.0.0/8,100.64.0.0/10,172.16.0.0/12,192.168.0.0/16,240.0.0.0/4"

// IsLoopback reports whether a host, a name or an IP, is this machine by itself: what is sent there nobody else reads.
func IsLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// Linkerd returns the environment of a proxy, a variable a line.
func Linkerd(cfg LinkerdConfig) ([]byte, error) {
	addr := cmp.Or(cfg.GRPCAddr, DefaultGRPCAddr)
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("the address of the control plane %q is not HOST:PORT", addr)
	}
	if !IsLoopback(host) && cfg.ServerName == "" {
		return nil, fmt.Errorf("the control plane %s is not on loopback, where proxies insist on TLS: say which name its certificate has", addr)
	}
	for _, network := range cfg.Networks {
		if _, err := netip.ParsePrefix(network); err != nil {
			return nil, fmt.Errorf("%q is not a network such as 10.0.0.0/8", network)
		}
	}
	if (cfg.SPIRESocket == "") != (cfg.Identity == "") {
		return nil, errors.New("the socket of the Workload API and the identity that it gives go together")
	}
	serverName := cmp.Or(cfg.IdentityName, consulName(cfg.Identity))
	if cfg.Identity != "" && serverName == "" {
		return nil, fmt.Errorf("the identity %q is not of the form of Consul's (spiffe://TRUST-DOMAIN/ns/default/dc/DATACENTER/svc/SERVICE): "+
			"say by which name other proxies call this one", cfg.Identity)
	}
	context, err := json.Marshal(struct {
		Node string `json:"nodeName,omitempty"`
		Zone string `json:"zone,omitempty"`
	}{cfg.Node, cfg.Zone})
	if err != nil {
		return nil, err
	}
	e := environment{}
	e.add("DESTINATION_SVC_ADDR", addr)
	e.add("DESTINATION_SVC_NAME", cfg.ServerName)
	e.add("DESTINATION_CONTEXT", string(context))
	e.add("DESTINATION_PROFILE_SUFFIXES", suffixes(cfg.Suffixes))
	e.add("DESTINATION_PROFILE_NETWORKS", cmp.Or(strings.Join(cfg.Networks, ","), DefaultLinkerdNetworks))
	// A proxy of today does not start without a server for policies. This one implements none, which it takes for
	// leave to go by profiles.
	e.add("POLICY_SVC_ADDR", addr)
	e.add("POLICY_SVC_NAME", cfg.ServerName)
	e.add("POLICY_WORKLOAD", string(context))
	e.add("INBOUND_DEFAULT_POLICY", "all-unauthenticated")
	e.add("OUTBOUND_LISTEN_ADDR", "127.0.0.1:4140")
	e.add("INBOUND_LISTEN_ADDR", "0.0.0.0:4143")
	e.add("CONTROL_LISTEN_ADDR", "127.0.0.1:4190")
	e.add("ADMIN_LISTEN_ADDR", "127.0.0.1:4191")
	e.add("IDENTITY_SPIRE_SOCKET", cfg.SPIRESocket)
	e.add("IDENTITY_SERVER_ID", cfg.Identity)
	e.add("IDENTITY_SERVER_NAME", serverName)
	return []byte(e.String()), e.err
}

// consulName is the name of the server in the mesh whose identity is of the form of Consul's; empty for any other.
func consulName(identity string) string {
	u, err := url.Parse(identity)
	if err != nil || u.Scheme != "spiffe" || u.Host == "" {
		return ""
	}
	parts := strings.Split(u.Path, "/")
	if len(parts) != 7 || parts[1] != "ns" || parts[3] != "dc" || parts[5] != "svc" {
		return ""
	}
	return strings.ToLower(parts[6] + "." + parts[2] + "." + parts[4] + ".internal." + u.Host)
}

// suffixes are names as the proxy has them, which end in a dot.
func suffixes(list []string) string {
	if len(list) == 0 {
		list = []string{"consul"}
	}
	rooted := make([]string, len(list))
	for i, s := range list {
		rooted[i] = strings.Trim(s, ".") + "."
	}
	return strings.Join(rooted, ",")
}

// environment is variables of the proxy.
type environment struct {
	strings.Builder
	err error
}

// add adds a variable, unless it is empty.
func (e *environment) add(name, value string) {
	if value == "" {
		return
	}
	if strings.ContainsAny(value, "\n\r\x00") {
		e.err = fmt.Errorf("%s: the value %q has more than one line", name, value)
	}
	e.WriteString("LINKERD2_PROXY_" + name + "=" + value + "\n")
}
