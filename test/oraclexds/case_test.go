package oraclexds_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gopkg.in/yaml.v3"
)

// object is JSON as Consul takes it.
type object = map[string]any

// world is what a Consul is like.
type world string

const (
	// open has no ACLs, so that intentions allow by default.
	open world = "open"
	// guarded has ACLs, so that intentions deny by default.
	guarded world = "guarded"
	// joined has a second datacenter, dc2, which trusts the same roots.
	joined world = "joined"
)

// scenario is what both servers are given.
type scenario struct {
	name string
	// About is one line for people.
	About string
	// World is open when empty.
	World world
	// Proxy is the ID of the sidecar whose resources are compared: web-sidecar-proxy when empty.
	Proxy string
	// Entries are config entries, written in their order.
	Entries []object
	// Services are registrations of the catalog: see expand.
	Services []object
}

// service is the service that the compared sidecar stands beside.
func (s *scenario) service() string { return strings.TrimSuffix(s.Proxy, sidecarSuffix) }

const sidecarSuffix = "-sidecar-proxy"

// load reads the cases, in the order of their names.
func load(dir string) ([]*scenario, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var all []*scenario
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		s := &scenario{
			name:  strings.TrimSuffix(filepath.Base(file), ".yaml"),
			World: open, Proxy: "web" + sidecarSuffix,
		}
		decoder := yaml.NewDecoder(bytes.NewReader(raw))
		decoder.KnownFields(true)
		if err := decoder.Decode(s); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		var registrations []object
		for _, service := range s.Services {
			registrations = append(registrations, expand(service)...)
		}
		s.Services = registrations
		all = append(all, s)
	}
	return all, nil
}

// expand makes registrations of what a case says of a service: the fields of a service in Consul's
// catalog, and beside them Node, NodeAddress and Datacenter of the registration, Status of its only
// check, and Sidecar, the fields of a second service with all that makes it the first one's sidecar.
func expand(service object) []object {
	take := func(key string, otherwise any) any {
		value, ok := service[key]
		delete(service, key)
		if !ok {
			return otherwise
		}
		return value
	}
	common := object{
		"Node": take("Node", "node-1"), "Address": take("NodeAddress", "10.0.0.1"), "Datacenter": take("Datacenter", "dc1"),
	}
	status := take("Status", "passing")
	sidecar, hasSidecar := take("Sidecar", nil).(object)
	if service["ID"] == nil {
		service["ID"] = service["Service"]
	}
	list := []object{registration(common, service, status)}
	if hasSidecar {
		list = append(list, expand(beside(service, sidecar, object{
			"Node": common["Node"], "NodeAddress": common["Address"], "Datacenter": common["Datacenter"], "Status": status,
		}))...)
	}
	return list
}

// beside completes a sidecar by what an agent would.
func beside(service, sidecar, common object) object {
	for key, value := range common {
		sidecar[key] = value
	}
	sidecar["Kind"] = "connect-proxy"
	sidecar["ID"] = fmt.Sprint(service["ID"]) + sidecarSuffix
	sidecar["Service"] = fmt.Sprint(service["Service"]) + sidecarSuffix
	defaults := object{"Port": 21000, "Proxy": object{}, "Meta": service["Meta"], "Tags": service["Tags"], "Weights": service["Weights"]}
	for key, value := range defaults {
		if sidecar[key] == nil && value != nil {
			sidecar[key] = value
		}
	}
	proxy := sidecar["Proxy"].(object)
	proxy["DestinationServiceName"], proxy["DestinationServiceID"] = service["Service"], service["ID"]
	if proxy["LocalServiceSocketPath"] == nil {
		proxy["LocalServicePort"] = service["Port"]
		if proxy["LocalServiceAddress"] == nil {
			proxy["LocalServiceAddress"] = "127.0.0.1"
		}
	}
	upstreams, _ := proxy["Upstreams"].([]any)
	for _, u := range upstreams {
		if u := u.(object); u["DestinationType"] == nil {
			u["DestinationType"] = "service"
		}
	}
	return sidecar
}

func registration(common, service object, status any) object {
	full := object{
		"Service": service, "SkipNodeUpdate": false,
		"Checks": []object{{
			"Node": common["Node"], "CheckID": fmt.Sprintf("service:%s", service["ID"]),
			"Name": fmt.Sprintf("check of %s", service["ID"]), "ServiceID": service["ID"], "Status": status,
		}},
	}
	for key, value := range common {
		full[key] = value
	}
	return full
}
