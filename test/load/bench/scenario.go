package main

import (
	"fmt"

	"github.com/catenary-mesh/catenary/test/load/catalog"
)

// scenario is the size of what is measured.
type scenario struct {
	name string
	size catalog.Config
	// other says that it is none of the document's scenarios.
	other bool
}

func (s scenario) key() string { return s.name }

// scenarios are those of the document, named streams x upstreams.
func scenarios() []scenario {
	return []scenario{sized("300x10", 300, 10), sized("100x200", 100, 200), sized("1000x10", 1000, 10)}
}

// sized has 200 services of 5 instances, as all scenarios have.
func sized(name string, streams, upstreams int) scenario {
	return scenario{name: name, size: catalog.Config{Services: 200, Instances: 5, Sidecars: streams, Upstreams: upstreams}}
}

// chooseScenarios returns the scenarios that a list with commas names, or one of any other size.
func chooseScenarios(list string) ([]scenario, error) {
	chosen, err := choose(scenarios(), list)
	if err == nil {
		return chosen, nil
	}
	var streams, upstreams int
	if n, scanErr := fmt.Sscanf(list, "%dx%d", &streams, &upstreams); scanErr != nil || n != 2 {
		return nil, err
	}
	other := sized(fmt.Sprintf("%dx%d", streams, upstreams), streams, upstreams)
	if other.name != list { // something follows the numbers
		return nil, err
	}
	other.other = true
	return []scenario{other}, other.size.Validate()
}

// server is one of those that are compared.
type server struct {
	name string
	// title stands above its column.
	title string
	// hcl is added to Consul's configuration.
	hcl string
	// catenary says that catenary is measured, which follows the Consul; otherwise Consul itself.
	catenary bool
	// tls says that catenary's port is encrypted, acl that Consul has ACLs and all is done by a token.
	tls, acl bool
}

func (s server) key() string { return s.name }

// servers are all that can be measured; those that are, unless others are chosen, come first.
func servers() []server {
	return []server{
		{name: "consul", title: "Consul"},
		{name: "uncapped", title: "Consul, cap lifted", hcl: `xds { update_max_per_second = 100000 }`},
		{name: "catenary", title: "catenary", catenary: true},
		{name: "tls", title: "catenary over TLS", catenary: true, tls: true},
		{name: "auth", title: "catenary over TLS, by token", catenary: true, tls: true, acl: true, hcl: guarded},
		{name: "consul-auth", title: "Consul, by token", acl: true, hcl: guarded},
	}
}

const usualServers = 3

// secret is the token that all is done by where Consul has ACLs.
const secret = "22222222-3333-4444-5555-666666666666"

// guarded turns ACLs on.
const guarded = `acl { enabled = true, default_policy = "deny", tokens { initial_management = "` + secret + `", agent = "` + secret + `" } }`

// token is what all is done by; empty where Consul has no ACLs.
func (s server) token() string {
	if !s.acl {
		return ""
	}
	return secret
}

// chooseServers returns the servers that a list with commas names; all of them are the usual ones.
func chooseServers(list string) ([]server, error) {
	if list == "all" {
		return servers()[:usualServers], nil
	}
	return choose(servers(), list)
}
