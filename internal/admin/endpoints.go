package admin

import (
	"cmp"
	"strings"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/snapshot"
)

// Endpoints is the instances of a service, as /api/v1/endpoints prints them.
type Endpoints struct {
	Service    string `json:"service"`
	Datacenter string `json:"datacenter"`
	// State is how well the instances are known: unknown, present, absent or suspect.
	State string `json:"state"`
	// Reason says why the state is unknown.
	Reason    string     `json:"reason,omitempty"`
	Instances []Instance `json:"instances"`
}

// Instance is one instance and what clients are told of it.
type Instance struct {
	ID      string `json:"id"`
	Node    string `json:"node"`
	Address string `json:"address"`
	Port    int    `json:"port"`
	// Health and Weight are what clients that want any usable instance are told.
	Health string            `json:"health"`
	Weight uint32            `json:"weight"`
	Meta   map[string]string `json:"meta,omitempty"`
	Checks []Check           `json:"checks,omitempty"`
}

// Check is one check of an instance.
type Check struct {
	ID     string `json:"id"`
	Name   string `json:"name,omitempty"`
	Status string `json:"status"`
}

// Describe tells what the facts say of a service's instances.
func Describe(v facts.View, datacenter, service string) Endpoints {
	topic := facts.Health(datacenter, service)
	list, state := v.Instances(topic)
	e := Endpoints{Service: service, Datacenter: datacenter, State: state.String()}
	if state == facts.Unknown {
		e.Reason = why(v, topic)
	}
	for _, in := range list {
		health, weight := snapshot.Judge(in, false)
		shown := Instance{
			ID: in.Service.ID, Node: in.Node.Node,
			Address: cmp.Or(in.Service.Address, in.Node.Address), Port: in.Service.Port,
			Health: string(health), Weight: weight, Meta: in.Service.Meta,
		}
		for _, c := range in.Checks {
			shown.Checks = append(shown.Checks, Check{ID: c.CheckID, Name: c.Name, Status: string(c.Status)})
		}
		e.Instances = append(e.Instances, shown)
	}
	return e
}

func why(v facts.View, topic facts.Topic) string {
	reason := v.Why(facts.ID{Topic: topic})
	if strings.HasSuffix(reason, ": not read yet") {
		return reason + "; instances are followed once a client needs them"
	}
	return reason
}
