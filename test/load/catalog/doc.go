// Package catalog fills a Consul's catalog for a load test, and flips the health of one instance: services
// with instances and their sidecars on external nodes, and the sidecars that the load generator imitates,
// with their upstreams. It knows Consul's HTTP API and nothing of who measures what.
package catalog

import (
	"fmt"

	"github.com/catenary-mesh/catenary/test/load/wire"
)

// Config is the size of a catalog.
type Config struct {
	// Services is how many services there are to be upstreams, of so many Instances each.
	Services, Instances int
	// Sidecars is how many sidecars are to be imitated, with so many Upstreams each. They are instances of
	// so many different Apps; 0 is one for each.
	Sidecars, Upstreams, Apps int
}

// Validate says what is wrong with a size, or returns nil.
func (c Config) Validate() error {
	const ports = 20000 // of upstreams, above which is 65535
	switch {
	case c.Services < 1 || c.Services > ports:
		return fmt.Errorf("catalog: %d services; from 1 to %d are possible", c.Services, ports)
	case c.Instances < 1 || c.Instances > nodesPerNet:
		return fmt.Errorf("catalog: %d instances; from 1 to %d are possible", c.Instances, nodesPerNet)
	case c.Sidecars < 0 || c.Sidecars > nodesPerNet:
		return fmt.Errorf("catalog: %d sidecars; at most %d are possible", c.Sidecars, nodesPerNet)
	case c.Upstreams < 1 || c.Upstreams > c.Services:
		return fmt.Errorf("catalog: %d upstreams; from 1 to the %d services are possible", c.Upstreams, c.Services)
	}
	return nil
}

// Watched is the instance that is flipped: an upstream of every sidecar.
func Watched() Instance { return Instance{} }

// Instance is an instance of a service, both by number.
type Instance struct{ service, number int }

// The ports of instances and their sidecars, to which the number of the service is added, and the first
// port at which a sidecar listens for its upstreams.
const (
	instancePort = 7000
	sidecarPort  = 30000
	upstreamPort = 10000
)

// nodesPerNet is how many nodes an address space of nodes has.
const nodesPerNet = 250 * 250

func address(net, i int) string { return fmt.Sprintf("10.%d.%d.%d", net, i/250, i%250+1) }

// Service is the name of the instance's service.
func (i Instance) Service() string { return fmt.Sprintf("svc-%d", i.service) }

// Address is where the instance and its sidecar are.
func (i Instance) Address() string { return address(1, i.number) }

// Port is the port of the instance's sidecar.
func (i Instance) Port() int { return sidecarPort + i.service }

func (i Instance) node() string    { return fmt.Sprintf("ext-%d", i.number) }
func (i Instance) id() string      { return fmt.Sprintf("svc-%d-%d", i.service, i.number) }
func (i Instance) sidecar() string { return i.id() + "-sidecar-proxy" }

// Node is who the i-th sidecar to be imitated is.
func (c Config) Node(i int) wire.Node {
	app := i
	if c.Apps > 0 {
		app = i % c.Apps
	}
	return wire.Node{
		ID:      fmt.Sprintf("app-%d-%d-sidecar-proxy", app, i),
		Cluster: fmt.Sprintf("app-%d", app),
		Name:    fmt.Sprintf("load-node-%d", i),
	}
}

// upstreams are the numbers of the services that the i-th sidecar has as its upstreams. The first is
// always that of the instance that is flipped; the others are spread.
func (c Config) upstreams(i int) []int {
	list := make([]int, c.Upstreams)
	for j := 1; j < c.Upstreams; j++ {
		list[j] = 1 + (i*7+j-1)%(c.Services-1)
	}
	return list
}
