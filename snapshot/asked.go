package snapshot

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"unicode"
)

// parseAsked reads a name that a gRPC client asks for: SERVICE, SERVICE.service.consul or
// SERVICE.service.DATACENTER.consul, each with a port or without. The port says nothing: endpoints have theirs.
func parseAsked(name string) (Upstream, error) {
	host := name
	if before, port, err := net.SplitHostPort(name); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return Upstream{}, fmt.Errorf("the port %q is not a number up to 65535", port)
		}
		host = before
	}
	u := Upstream{Service: host}
	if inner, ok := strings.CutSuffix(strings.TrimSuffix(host, "."), ".consul"); ok {
		service, datacenter, found := cutLabel(inner, "service")
		if !found {
			return Upstream{}, fmt.Errorf("of the names under .consul, those of services are served: SERVICE.service.consul or SERVICE.service.DATACENTER.consul")
		}
		if tag, rest, tagged := strings.Cut(service, "."); tagged {
			return Upstream{}, fmt.Errorf("tags are not supported: ask for %q, and write a service-resolver with a subset for %q", rest, tag)
		}
		u.Service, u.Datacenter = service, strings.TrimSuffix(datacenter, ".dc")
	}
	for _, part := range []struct{ what, text string }{{"service", u.Service}, {"datacenter", u.Datacenter}} {
		if err := checkAsked(part.what, part.text); err != nil {
			return Upstream{}, err
		}
	}
	return u, nil
}

// cutLabel cuts a DNS name around a label: "api.service.dc2" is "api" and "dc2".
func cutLabel(name, label string) (before, after string, found bool) {
	labels := strings.Split(name, ".")
	for i := len(labels) - 1; i > 0; i-- {
		if labels[i] == label {
			return strings.Join(labels[:i], "."), strings.Join(labels[i+1:], "."), true
		}
	}
	return "", "", false
}

// maxAsked bounds the names of services and datacenters: they become part of what is asked of the source.
const maxAsked = 256

func checkAsked(what, text string) error {
	switch {
	case text == "" && what == "service":
		return fmt.Errorf("it names no service")
	case len(text) > maxAsked:
		return fmt.Errorf("the %s has %d bytes, more than the %d allowed", what, len(text), maxAsked)
	case text == "." || text == "..":
		return fmt.Errorf("the %s %q means something else in a path", what, text)
	}
	for _, r := range text {
		if unicode.IsSpace(r) || !unicode.IsPrint(r) || strings.ContainsRune(`@:/?#"\*`, r) {
			return fmt.Errorf("the %s %q has the character %q, which no name may have", what, text, r)
		}
	}
	return nil
}
