package hds

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Definition is what the catalog says of how Consul does a check. It is empty for the checks of agents,
// which keep it to themselves.
type Definition struct {
	CheckID string
	// HTTP is a URL, TCP host:port, GRPC host:port or host:port/service; one of them is set.
	HTTP, TCP, GRPC string
	Method          string
	Body            string
	Header          map[string][]string
	// TLS is set for grpc and tcp through TLS.
	TLS               bool
	Interval, Timeout time.Duration
}

// probe translates the definition for an endpoint whose instance is at the address, or says why it cannot.
func (d Definition) probe(address string) (Probe, string) {
	var probe Probe
	var reason string
	switch {
	case d.HTTP != "":
		probe, reason = d.http(address)
	case d.GRPC != "":
		where, service, _ := strings.Cut(d.GRPC, "/")
		probe, reason = atPort(GRPC, where, address)
		probe.Path, probe.TLS = service, d.TLS
	case d.TCP != "":
		probe, reason = atPort(TCP, d.TCP, address)
		probe.TLS = d.TLS
	default:
		return Probe{}, "its definition is empty, as that of every check registered with an agent, or of a kind that checkers have not"
	}
	if reason != "" {
		return Probe{}, reason
	}
	if d.Interval > 0 {
		probe.Interval = d.Interval
	}
	if d.Timeout > 0 {
		probe.Timeout = d.Timeout
	}
	return probe, probe.Problem()
}

func (d Definition) http(address string) (Probe, string) {
	u, err := url.Parse(d.HTTP)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return Probe{}, "its URL cannot be read"
	}
	switch {
	case d.Method != "" && d.Method != "GET":
		return Probe{}, fmt.Sprintf("its method is %.16q, and checkers only GET", d.Method)
	case len(d.Header) > 0 || d.Body != "" || u.User != nil:
		return Probe{}, "it sends headers, a body or a password, which checkers do not"
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	probe, reason := atPort(HTTP, net.JoinHostPort(u.Hostname(), port), address)
	probe.TLS = u.Scheme == "https"
	probe.Path = u.RequestURI()
	if _, err := netip.ParseAddr(u.Hostname()); err != nil {
		probe.Host = u.Host
	}
	// Consul takes any success.
	probe.Statuses = "200-299"
	return probe, reason
}

// atPort is a probe of the port that a definition names. The address is never the definition's: the
// endpoint is what there is to be a verdict about.
func atPort(p Protocol, where, address string) (Probe, string) {
	probe := DefaultProbe(p)
	host, portText, err := net.SplitHostPort(where)
	port, errPort := strconv.ParseUint(portText, 10, 16)
	if err != nil || errPort != nil || port == 0 {
		return probe, fmt.Sprintf("%.80q is not host:port", where)
	}
	probe.Port = uint32(port)
	if addr, err := netip.ParseAddr(host); err == nil && !addr.IsLoopback() && host != address {
		return probe, fmt.Sprintf("it checks %s, which is not the address of the instance", host)
	}
	return probe, ""
}
