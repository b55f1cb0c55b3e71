package bootstrap

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode"
)

// DefaultBindAddress is where a proxy listens for an upstream that names no address.
const DefaultBindAddress = "127.0.0.1"

// UpstreamForm is how an upstream is written on the command line.
const UpstreamForm = "SERVICE[@DATACENTER]:[ADDRESS:]PORT"

const upstreamExamples = "api:9191, db:127.0.0.1:5432, stock@dc2:9292 or web:[::1]:8080"

// Upstream is one service that a proxy wants to reach, and where its own service finds it.
type Upstream struct {
	Service string `json:"service"`
	// Datacenter is empty for the control plane's own.
	Datacenter string `json:"datacenter,omitempty"`
	// BindAddress is the IP address the proxy listens at, without brackets.
	BindAddress string `json:"bind_address"`
	// BindPort is 1 to 65535.
	BindPort int `json:"bind_port"`
}

// ParseUpstream reads an upstream in the form [UpstreamForm]. A missing address is
// [DefaultBindAddress]; an IPv6 address is in brackets.
func ParseUpstream(text string) (Upstream, error) {
	u, err := parseUpstream(text)
	if err != nil {
		return Upstream{}, fmt.Errorf("upstream %q: %w; write %s, such as %s", text, err, UpstreamForm, upstreamExamples)
	}
	return u, nil
}

func parseUpstream(text string) (Upstream, error) {
	target, bind, ok := strings.Cut(text, ":")
	if !ok {
		return Upstream{}, fmt.Errorf("there is no port to listen on")
	}
	u := Upstream{BindAddress: DefaultBindAddress}
	u.Service, u.Datacenter, ok = strings.Cut(target, "@")
	if ok && u.Datacenter == "" {
		return Upstream{}, fmt.Errorf("there is no datacenter after the @")
	}
	port := bind
	if strings.Contains(bind, ":") {
		var err error
		if u.BindAddress, port, err = net.SplitHostPort(bind); err != nil {
			return Upstream{}, fmt.Errorf("%q is not ADDRESS:PORT; an IPv6 address needs brackets", bind)
		}
	}
	var err error
	if u.BindPort, err = strconv.Atoi(port); err != nil {
		return Upstream{}, fmt.Errorf("the port %q is not a number", port)
	}
	return u, u.validate()
}

func (u Upstream) validate() error {
	if err := CheckName("service", u.Service); err != nil {
		return err
	}
	if u.Datacenter != "" {
		if err := CheckName("datacenter", u.Datacenter); err != nil {
			return err
		}
	}
	if _, err := bindIP(u.BindAddress); err != nil {
		return err
	}
	if u.BindPort < 1 || u.BindPort > 65535 {
		return fmt.Errorf("the port %d is not in 1 to 65535", u.BindPort)
	}
	return nil
}

// distinctBinds checks that no two upstreams want one address and port: Envoy would refuse the second
// listener.
func distinctBinds(upstreams []Upstream) error {
	taken := make(map[netip.AddrPort]string, len(upstreams))
	for _, u := range upstreams {
		addr, err := bindIP(u.BindAddress)
		if err != nil {
			return err
		}
		at := netip.AddrPortFrom(addr, uint16(u.BindPort))
		if other, ok := taken[at]; ok {
			return fmt.Errorf("the upstreams %q and %q both listen at %s: give each its own port", other, u.Service, at)
		}
		taken[at] = u.Service
	}
	return nil
}

// bindIP reads an address that Envoy can bind to. It knows no zones.
func bindIP(text string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" {
		return netip.Addr{}, fmt.Errorf("the address %q is not an IP address", text)
	}
	return addr, nil
}

// MaxNameBytes bounds the names of services and datacenters. Consul's DNS can serve 63.
const MaxNameBytes = 256

// CheckName holds names to what a resource name and a URL path can carry. Consul allows little more.
func CheckName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the %s has no name", what)
	case len(name) > MaxNameBytes:
		return fmt.Errorf("the %s %.64q... has %d bytes, more than the %d allowed", what, name, len(name), MaxNameBytes)
	case name == "." || name == "..":
		return fmt.Errorf("the %s %q has a name that means something else in a path", what, name)
	}
	for _, r := range name {
		if unicode.IsSpace(r) || !unicode.IsPrint(r) || strings.ContainsRune(`@:/?#"\`, r) {
			return fmt.Errorf("the %s %q has the character %q, which no name may have", what, name, r)
		}
	}
	return nil
}
