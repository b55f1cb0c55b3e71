package catalog

import (
	"fmt"
	"strings"
)

// registration is the body of PUT /v1/catalog/register, as far as it is needed.
type registration struct {
	Node, Address  string
	SkipNodeUpdate bool     `json:",omitempty"`
	Service        *service `json:",omitempty"`
	Check          *check   `json:",omitempty"`
}

type service struct {
	ID, Service, Address string
	Kind                 string `json:",omitempty"`
	Port                 int
	Proxy                *proxy `json:",omitempty"`
}

type proxy struct {
	DestinationServiceName, DestinationServiceID string
	LocalServicePort                             int
	Upstreams                                    []upstream `json:",omitempty"`
}

type upstream struct {
	DestinationName string
	LocalBindPort   int
}

type check struct {
	Node, CheckID, Name, Status, ServiceID string
}

// registrations calls f with every registration of a catalog until it returns false.
func (c Config) registrations(f func(registration) bool) {
	for s := range c.Services {
		for n := range c.Instances {
			i := Instance{s, n}
			if !f(i.registration()) || !f(i.sidecarRegistration()) {
				return
			}
		}
	}
	for i := range c.Sidecars {
		app, sidecar := c.sidecar(i)
		if !f(app) || !f(sidecar) {
			return
		}
	}
}

func (i Instance) registration() registration {
	return registration{Node: i.node(), Address: i.Address(), Service: &service{
		ID: i.id(), Service: i.Service(), Address: i.Address(), Port: instancePort + i.service,
	}}
}

func (i Instance) sidecarRegistration() registration {
	r := i.health(true)
	r.SkipNodeUpdate = false
	r.Service = &service{
		ID: i.sidecar(), Service: i.Service() + "-sidecar-proxy", Kind: "connect-proxy", Address: i.Address(), Port: i.Port(),
		Proxy: &proxy{
			DestinationServiceName: i.Service(), DestinationServiceID: i.id(), LocalServicePort: instancePort + i.service,
		},
	}
	return r
}

// health is the one check of the instance's sidecar.
func (i Instance) health(healthy bool) registration {
	status := "critical"
	if healthy {
		status = "passing"
	}
	return registration{Node: i.node(), Address: i.Address(), SkipNodeUpdate: true, Check: &check{
		Node: i.node(), CheckID: "service:" + i.sidecar(), Name: "check of the load test", Status: status, ServiceID: i.sidecar(),
	}}
}

// sidecar is the i-th sidecar to be imitated, and the instance it belongs to.
func (c Config) sidecar(i int) (app, sidecar registration) {
	node := c.Node(i)
	id, where := strings.TrimSuffix(node.ID, "-sidecar-proxy"), address(2, i)
	app = registration{Node: node.Name, Address: where, Service: &service{ID: id, Service: node.Cluster, Address: where, Port: 8080}}
	p := &proxy{DestinationServiceName: node.Cluster, DestinationServiceID: id, LocalServicePort: 8080}
	for j, s := range c.upstreams(i) {
		p.Upstreams = append(p.Upstreams, upstream{fmt.Sprintf("svc-%d", s), upstreamPort + j})
	}
	sidecar = registration{Node: node.Name, Address: where, Service: &service{
		ID: node.ID, Service: node.Cluster + "-sidecar-proxy", Kind: "connect-proxy", Address: where, Port: 21000, Proxy: p,
	}}
	return app, sidecar
}
