package destination

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// DefaultPort is meant by a path without a port.
const DefaultPort = 80

// Name is a service, or a subset of it, as a proxy asks for it. It is comparable.
type Name struct {
	// Subset is empty for the service as its resolver has it.
	Subset, Service string
	// Datacenter is never empty.
	Datacenter string
	// Peer is the cluster peer that the service is imported from; empty for the own cluster. Nothing is behind such
	// names yet.
	Peer string
	Port uint16
}

// Names says how names are written.
type Names struct {
	// Datacenter is meant by a name that has none.
	Datacenter string
	// Suffix ends names of the form SERVICE.NAMESPACE.SUFFIX, such as svc.cluster.local; empty for none.
	Suffix string
}

// The bounds of what a proxy can ask for: each name is kept for as long as somebody asks for it.
const (
	maxPath  = 512
	maxLabel = 128
)

// namespace is the only one that Consul's Community Edition has.
const namespace = "default"

// Parse reads the path of a question for endpoints. The errors say what is wrong with it.
func (n Names) Parse(path string) (Name, error) {
	host, port, err := splitPath(path)
	if err != nil {
		return Name{}, err
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return Name{}, fmt.Errorf("%q is an address: only the names of services have endpoints", host)
	}
	name, err := n.parseHost(host)
	name.Port = port
	return name, err
}

// ParseTarget reads the path of a question for a profile: a name, or an address, which is then valid.
func (n Names) ParseTarget(path string) (Name, netip.AddrPort, error) {
	host, port, err := splitPath(path)
	if err != nil {
		return Name{}, netip.AddrPort{}, err
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.Zone() != "" {
			return Name{}, netip.AddrPort{}, fmt.Errorf("the address %q has a zone, which means something on one machine only", host)
		}
		return Name{}, netip.AddrPortFrom(ip.Unmap(), port), nil
	}
	name, err := n.parseHost(host)
	if name.Port = port; err == nil && name.Peer != "" {
		err = fmt.Errorf("%q is not a name that is served: cluster peering is not supported", host)
	}
	return name, netip.AddrPort{}, err
}

func splitPath(path string) (host string, port uint16, err error) {
	if len(path) > maxPath {
		return "", 0, fmt.Errorf("the path has %d bytes, more than the %d allowed", len(path), maxPath)
	}
	if !strings.Contains(path, ":") {
		return path, DefaultPort, nil
	}
	if ip, err := netip.ParseAddr(path); err == nil && ip.Is6() {
		return path, DefaultPort, nil
	}
	host, text, err := net.SplitHostPort(path)
	if err != nil {
		return "", 0, fmt.Errorf("%q is not HOST or HOST:PORT", path)
	}
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil || number == 0 || text[0] == '+' {
		return "", 0, fmt.Errorf("the port %q is not a number from 1 to 65535", text)
	}
	return host, uint16(number), nil
}

// parseHost reads a name, in which case does not count.
func (n Names) parseHost(host string) (Name, error) {
	lower := strings.ToLower(strings.TrimSuffix(host, "."))
	labels := strings.Split(lower, ".")
	for _, label := range labels {
		if err := checkLabel(label); err != nil {
			return Name{}, fmt.Errorf("%q is no name: %w", host, err)
		}
	}
	var name Name
	var err error
	suffix := strings.Trim(strings.ToLower(n.Suffix), ".")
	inner, kubernetes := strings.CutSuffix(lower, "."+suffix)
	switch {
	case labels[len(labels)-1] == "consul":
		name, err = parseConsul(labels[:len(labels)-1])
	case suffix != "" && kubernetes:
		name, err = parseNamespaced(strings.Split(inner, "."))
	default:
		err = fmt.Errorf("it ends neither in .service.consul nor in .service.DATACENTER.consul%s", orSuffix(suffix))
	}
	if err != nil {
		return Name{}, fmt.Errorf("%q is not a name that is served: %w", host, err)
	}
	name.Datacenter = cmp.Or(name.Datacenter, n.Datacenter)
	return name, nil
}

func orSuffix(suffix string) string {
	if suffix == "" {
		return ""
	}
	return ", nor in ." + suffix
}

// parseConsul reads the labels before consul: those of the service, then service or virtual, then where it is.
func parseConsul(labels []string) (Name, error) {
	at := -1
	for i := len(labels) - 1; i > 0; i-- {
		if labels[i] == "service" || labels[i] == "virtual" {
			at = i
			break
		}
	}
	if at < 0 {
		return Name{}, fmt.Errorf("of the names under .consul, those of services are served: SERVICE.service.consul")
	}
	name, err := parseService(labels[:at])
	if err != nil {
		return Name{}, err
	}
	name.Datacenter, name.Peer, err = parsePlace(joined(labels[at+1:]))
	return name, err
}

// parsePlace reads [NAMESPACE.ns.][PARTITION.ap.][DATACENTER[.dc]|PEER.peer].
func parsePlace(labels []string) (datacenter, peer string, err error) {
	for len(labels) >= 2 {
		value, what := labels[0], labels[1]
		switch {
		case what == "dc" && len(labels) == 2:
			return value, "", nil
		case what == "peer" && len(labels) == 2:
			return "", value, nil
		case what != "ns" && what != "ap":
			return "", "", fmt.Errorf("%q says not where the service is: write DATACENTER or DATACENTER.dc", strings.Join(labels, "."))
		case value != namespace:
			return "", "", fmt.Errorf("there are no namespaces and partitions but %q, and this names %q", namespace, value)
		}
		labels = labels[2:]
	}
	if len(labels) == 1 && labels[0] != namespace {
		return labels[0], "", nil // a bare namespace says nothing: there is one
	}
	return "", "", nil
}

// parseService reads [SUBSET.]SERVICE[.default].
func parseService(labels []string) (Name, error) {
	if n := len(labels); n > 1 && labels[n-1] == namespace {
		labels = labels[:n-1]
	}
	labels = joined(labels)
	switch len(labels) {
	case 1:
		return Name{Service: labels[0]}, nil
	case 2:
		return Name{Subset: labels[0], Service: labels[1]}, nil
	}
	return Name{}, fmt.Errorf("%q is neither SERVICE nor SUBSET.SERVICE", strings.Join(labels, "."))
}

// parseNamespaced reads [SUBSET.]SERVICE.NAMESPACE.
func parseNamespaced(labels []string) (Name, error) {
	if n := len(labels); n < 2 || labels[n-1] != namespace {
		return Name{}, fmt.Errorf("it is not SERVICE.%s before the suffix: that is the only namespace", namespace)
	}
	return parseService(labels[:len(labels)-1])
}

// checkLabel holds the parts of a name to what a name of DNS can have, and Consul's names of services too.
func checkLabel(label string) error {
	if label == "" {
		return fmt.Errorf("a part of it is empty")
	}
	if len(label) > maxLabel {
		return fmt.Errorf("a part of it has %d bytes, more than the %d allowed", len(label), maxLabel)
	}
	for _, c := range []byte(label) {
		if c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return fmt.Errorf("the part %q has a character that no name may have", label)
		}
	}
	return nil
}

// CheckSuffix says what is wrong with a suffix for [Names].
func CheckSuffix(suffix string) error {
	trimmed := strings.Trim(strings.ToLower(suffix), ".")
	if trimmed == "" {
		if suffix != "" {
			return fmt.Errorf("%q has no name in it: give one such as svc.cluster.local", suffix)
		}
		return nil
	}
	labels := strings.Split(trimmed, ".")
	for _, label := range labels {
		if err := checkLabel(label); err != nil {
			return fmt.Errorf("%q: %w", suffix, err)
		}
	}
	if labels[len(labels)-1] == "consul" {
		return fmt.Errorf("%q: names under .consul have a form of their own", suffix)
	}
	return nil
}
