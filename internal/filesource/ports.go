package filesource

import (
	"fmt"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// The ports that Consul gives to sidecars that ask for none, on each node.
const (
	firstSidecarPort = 21000
	lastSidecarPort  = 21255
)

// assignPorts gives each sidecar without a port the first one that no service of its node has, in the
// order in which they are defined.
func (s Set) assignPorts() []chain.Problem {
	type place struct {
		node string
		port int
	}
	taken := map[place]bool{}
	for _, in := range s.Instances {
		taken[place{in.Node.Node, in.Service.Port}] = true
	}
	var problems []chain.Problem
	for _, in := range s.Instances {
		if !wantsPort(in) {
			continue
		}
		at := place{in.Node.Node, firstSidecarPort}
		for taken[at] && at.port <= lastSidecarPort {
			at.port++
		}
		if at.port > lastSidecarPort {
			problems = append(problems, chain.Problem{
				Code: CodePorts, Severity: chain.SeverityError, Entry: "service/" + in.Service.ID, Origin: s.origins[in],
				Field: "Port", Message: fmt.Sprintf("no port from %d to %d is left for this sidecar: give it one",
					firstSidecarPort, lastSidecarPort),
			})
			continue
		}
		taken[at] = true
		in.Service.Port = at.port
	}
	return problems
}

func wantsPort(in *facts.Instance) bool {
	return in.Service.Kind == kindProxy && in.Service.Port == 0
}
