package fleet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/catenary-mesh/catenary/test/load/wire"
)

// serviceOf is the service that a set of endpoints is of. Both Consul and what follows it put the
// service first and datacenter, trust domain and so on behind dots, and may put the hash of a
// customisation and a tilde in front.
func serviceOf(name string) string {
	if _, rest, ok := strings.Cut(name, "~"); ok {
		name = rest
	}
	service, _, _ := strings.Cut(name, ".")
	return service
}

// isOf says the same of a name without making a text of it.
func isOf(name, service []byte) bool {
	if i := slices.Index(name, '~'); i >= 0 {
		name = name[i+1:]
	}
	if len(name) < len(service) || string(name[:len(service)]) != string(service) {
		return false
	}
	return len(name) == len(service) || name[len(service)] == '.'
}

// normalised is what the stream holds, as "service address:port health", sorted, in words that do not
// depend on how a server names things.
func (s *stream) normalised() []string {
	s.bodiesMu.Lock()
	defer s.bodiesMu.Unlock()
	list := []string{}
	for name, body := range s.bodies {
		service := serviceOf(name)
		err := wire.EachEndpoint(body, func(e wire.Endpoint) {
			health := "unhealthy"
			if e.Health.Healthy() {
				health = "healthy"
			}
			list = append(list, fmt.Sprintf("%s %s:%d %s", service, e.Address, e.Port, health))
		})
		if err != nil {
			list = append(list, fmt.Sprintf("%s %v", service, err))
		}
	}
	slices.Sort(list)
	return list
}

// Differences names up to most streams that two servers do not give the same, and what.
func Differences(a, b map[string][]string, most int) (list []string) {
	nodes := map[string]bool{}
	for _, m := range []map[string][]string{a, b} {
		for node := range m {
			nodes[node] = true
		}
	}
	for node := range nodes {
		if !slices.Equal(a[node], b[node]) {
			list = append(list, fmt.Sprintf("%s: %d and %d endpoints: %s", node, len(a[node]), len(b[node]), firstOf(a[node], b[node])))
		}
	}
	slices.Sort(list)
	return list[:min(len(list), most)]
}

// firstOf is the first that one list has and the other has not.
func firstOf(a, b []string) string {
	for _, x := range a {
		if !slices.Contains(b, x) {
			return "only the first has " + x
		}
	}
	for _, x := range b {
		if !slices.Contains(a, x) {
			return "only the second has " + x
		}
	}
	return "one has some twice"
}
