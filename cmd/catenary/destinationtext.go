package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/catenary-mesh/catenary/destination"
	pb "github.com/catenary-mesh/catenary/internal/proto/destination"
)

// writeChanges writes a line for each endpoint that came (+), became another (~) or went (-).
func writeChanges(w io.Writer, changes []destination.Change, seen *destination.Seen) error {
	for _, c := range changes {
		line := "- " + c.Addr.String()
		if c.Now != nil {
			line = "+ " + c.Addr.String() + endpointText(c.Now)
			if c.Before != nil {
				line = "~" + line[1:]
			}
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	var err error
	switch {
	case len(seen.Endpoints) > 0:
	case seen.Exists:
		_, err = fmt.Fprintln(w, "no endpoints: the service exists and has none")
	default:
		_, err = fmt.Fprintln(w, "no endpoints: there is no such service")
	}
	return err
}

func endpointText(e *pb.WeightedAddr) string {
	words := []string{"", fmt.Sprintf("weight=%d", e.GetWeight())}
	for _, name := range slices.Sorted(maps.Keys(e.GetMetricLabels())) {
		if value := e.GetMetricLabels()[name]; value != "" {
			words = append(words, name+"="+value)
		}
	}
	if t := e.GetTlsIdentity(); t != nil {
		words = append(words, "identity="+t.GetUriLikeIdentity().GetUri(), "server_name="+t.GetServerName().GetName())
	}
	if e.GetProtocolHint().GetOpaque() != nil {
		words = append(words, "opaque")
	}
	return strings.Join(words, " ")
}

// writeProfile writes a profile, what there is of it a line each.
func writeProfile(w io.Writer, p *pb.DestinationProfile) error {
	var b strings.Builder
	name := p.GetFullyQualifiedName()
	switch {
	case name != "":
	case p.GetEndpoint() != nil:
		name = "of an instance"
	default:
		name = "of nothing that is known"
	}
	fmt.Fprintf(&b, "profile %s", name)
	if p.GetOpaqueProtocol() {
		b.WriteString(" opaque")
	}
	b.WriteString("\n")
	if e := p.GetEndpoint(); e != nil {
		if at, ok := destination.AddrPort(e.GetAddr()); ok {
			fmt.Fprintf(&b, "  endpoint %s%s\n", at, endpointText(e))
		}
	}
	for _, d := range p.GetDstOverrides() {
		fmt.Fprintf(&b, "  to %s weight=%d\n", d.GetAuthority(), d.GetWeight())
	}
	for _, r := range p.GetRoutes() {
		fmt.Fprintf(&b, "  route %s", r.GetMetricsLabels()["route"])
		if r.GetTimeout() != nil {
			fmt.Fprintf(&b, " timeout=%s", r.GetTimeout().AsDuration())
		}
		if r.GetIsRetryable() {
			b.WriteString(" retries")
		}
		for _, c := range r.GetResponseClasses() {
			verdict := "success"
			if c.GetIsFailure() {
				verdict = "failure"
			}
			fmt.Fprintf(&b, " %d-%d=%s", c.GetCondition().GetStatus().GetMin(), c.GetCondition().GetStatus().GetMax(), verdict)
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
