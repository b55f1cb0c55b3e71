package hds

import (
	"cmp"
	"fmt"
	"net/netip"
	"unicode/utf8"
)

// Key identifies an endpoint: an address in an endpoint set.
type Key struct {
	// Set is the name of the set's EDS resource.
	Set     string
	Address string
	Port    uint32
}

func (k Key) compare(other Key) int {
	return cmp.Or(cmp.Compare(k.Set, other.Set), cmp.Compare(k.Address, other.Address), cmp.Compare(k.Port, other.Port))
}

// Endpoint is an endpoint to probe. Region, Zone and Node are empty where they are not known.
type Endpoint struct {
	Key
	// Service is who hears of refusals, and what the brake counts by.
	Service string
	Region  string
	Zone    string
	// Node is the name of the node it runs on.
	Node string
}

// Duty is an endpoint and how it is to be probed. It is comparable.
type Duty struct {
	Endpoint
	Probe  Probe
	Policy Policy
}

// Policy is how verdicts and Consul's checks make an endpoint's health.
type Policy string

// The policies: And, the default, wants both; Consul shows the votes and does not use them; Only leaves
// Consul nothing but maintenance.
const (
	And    Policy = "and"
	Consul Policy = "consul"
	Only   Policy = "hds"
)

const maxSetName = 512

// Canonical returns the duty with its address as Envoy writes it, so that one endpoint has one key.
func (d Duty) Canonical() Duty {
	if addr, err := netip.ParseAddr(d.Address); err == nil {
		d.Address = addr.Unmap().String()
	}
	return d
}

// Problem says why no checker is given the duty; it is empty for one that is fine. Whatever has been seen
// to end an Envoy or to be refused by it is a problem.
func (d Duty) Problem() string {
	if text := d.addressProblem(); text != "" {
		return text
	}
	switch {
	case d.Port < 1 || d.Port > maxPort:
		return fmt.Sprintf("the port is %d, and must be 1 to %d", d.Port, maxPort)
	case d.Set == "" || len(d.Set) > maxSetName:
		return fmt.Sprintf("the name of the endpoint set has %d bytes, and must have 1 to %d", len(d.Set), maxSetName)
	case !utf8.ValidString(d.Set + d.Region + d.Zone):
		return "a name is not UTF-8"
	}
	return d.Probe.Problem()
}

func (d Duty) addressProblem() string {
	addr, err := netip.ParseAddr(d.Address)
	switch {
	case err != nil:
		return fmt.Sprintf("%.80q is not an IP address: Envoy probes addresses only", d.Address)
	case addr.Zone() != "":
		return fmt.Sprintf("%.80q has a zone, which means something on one machine only", d.Address)
	case addr.Unmap().IsUnspecified(), addr.Unmap().IsMulticast(), addr.Unmap() == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return fmt.Sprintf("%s is not the address of one machine", d.Address)
	}
	return ""
}
