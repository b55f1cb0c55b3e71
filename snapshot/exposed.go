package snapshot

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/catenary-mesh/catenary/chain"
)

// expose adds the paths that are reached without the mesh.
func (i *inbound) expose(public PublicListenerKey) {
	if i.exposed.Checks {
		i.out.Missing = append(i.out.Missing,
			"the paths of checks are not exposed (expose.checks), for only Consul's own agent knows them: list them under expose.paths")
	}
	for _, path := range i.exposed.Paths {
		if reason := i.exposePath(public, path); reason != "" {
			i.out.Missing = append(i.out.Missing, fmt.Sprintf("the path %q is not exposed: %s", path.Path, reason))
		}
	}
}

// exposePath adds one, or returns why it does not.
func (i *inbound) exposePath(public PublicListenerKey, path chain.ExposePath) string {
	protocol := cmp.Or(strings.ToLower(path.Protocol), "http")
	switch {
	case path.Path == "":
		return "it is empty"
	case path.ListenerPort <= 0 || path.ListenerPort > maxPort:
		return fmt.Sprintf("its listener_port is %d", path.ListenerPort)
	case path.LocalPathPort <= 0 || path.LocalPathPort > maxPort:
		return fmt.Sprintf("its local_path_port is %d", path.LocalPathPort)
	case protocol != "http" && protocol != "http2":
		return fmt.Sprintf("its protocol is %q: want http or http2", path.Protocol)
	case i.taken[path.ListenerPort] != "":
		return fmt.Sprintf("its listener_port %d is that of %s", path.ListenerPort, i.taken[path.ListenerPort])
	}
	k := ExposedListenerKey{
		Name: stripped(path.Path), Address: public.Address, Port: path.ListenerPort,
		Path: path.Path, Protocol: protocol, Cluster: LocalApp,
		MaxRequestHeadersKB: i.config.MaxRequestHeadersKB, AccessLogs: public.AccessLogs,
	}
	if path.ParsedFromCheck {
		k.LocalOnly = true
		if isIP(i.key.CheckSource) {
			k.Source = i.key.CheckSource
		}
	}
	if path.LocalPathPort != i.key.Local.Port {
		k.Cluster = fmt.Sprintf("exposed_cluster_%d", path.LocalPathPort)
		// Of two paths at one port the last decides how it is spoken to.
		i.cluster(LocalClusterKey{
			Name: k.Cluster, Protocol: protocol, Explicit: true,
			At: LocalService{Address: i.key.Local.Address, Port: path.LocalPathPort},
		})
	}
	name := InboundListenerName("exposed_path_"+k.Name, k.Address, k.Port)
	i.taken[k.Port] = name
	i.add(name, k)
	return ""
}

const maxPort = 65535

// stripped is a path without what is neither a letter nor a digit, as Consul has it in names.
func stripped(path string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z':
			return r
		}
		return -1
	}, path)
}
