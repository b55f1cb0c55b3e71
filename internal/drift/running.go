package drift

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// Running is what an Envoy runs, by its own word.
type Running struct {
	// Node is the ID that it gives itself.
	Node string

	resources map[id]resource
	// health is what it was told of its endpoints, by cluster and address: what it lists of them mixes that
	// with its own experience.
	health map[string]map[string]string
}

type id struct{ typ, name string }

// resource is one that runs. One that is not dynamic is of the bootstrap.
type resource struct {
	content          any
	dynamic, warming bool
	notes            []string
}

// Parse reads what /config_dump?include_eds answers, and /clusters?format=json, which may be empty: then an
// endpoint that Envoy itself has ejected counts as different.
func Parse(configDump, clusters []byte) (Running, error) {
	r := Running{resources: map[id]resource{}, health: map[string]map[string]string{}}
	var dump struct{ Configs []map[string]any }
	if err := json.Unmarshal(configDump, &dump); err != nil {
		return r, fmt.Errorf("the dump of the configuration is no JSON: %w", err)
	}
	if len(dump.Configs) == 0 {
		return r, fmt.Errorf("the dump of the configuration holds none")
	}
	for _, part := range dump.Configs {
		kind := textAt(part, "@type")
		r.add(kind[strings.LastIndex(kind, ".")+1:], part)
	}
	if len(clusters) > 0 {
		if err := r.addHealth(clusters); err != nil {
			return r, err
		}
	}
	return r, nil
}

// sections says where the parts of a dump have their resources.
var sections = map[string][]section{
	"ClustersConfigDump": {
		{list: "static_clusters", in: "cluster", typ: Cluster},
		{list: "dynamic_active_clusters", in: "cluster", typ: Cluster, dynamic: true},
		{list: "dynamic_warming_clusters", in: "cluster", typ: Cluster, dynamic: true, warming: true},
	},
	"EndpointsConfigDump": {
		{list: "dynamic_endpoint_configs", in: "endpoint_config", typ: Endpoint, name: "cluster_name", dynamic: true},
	},
	"ListenersConfigDump": {
		{list: "static_listeners", in: "listener", typ: Listener},
	},
	"RoutesConfigDump": {
		{list: "dynamic_route_configs", in: "route_config", typ: Route, dynamic: true},
	},
	"SecretsConfigDump": {
		{list: "static_secrets", in: "secret", typ: Secret},
		{list: "dynamic_active_secrets", in: "secret", typ: Secret, dynamic: true},
	},
	"EcdsConfigDump": {
		{list: "ecds_filters", in: "ecds_filter", typ: Extension, dynamic: true},
	},
}

// section is a list of a dump.
type section struct {
	list, in, typ    string
	name             string // the field with the name; "name" if empty
	dynamic, warming bool
}

func (r *Running) add(kind string, part map[string]any) {
	if kind == "BootstrapConfigDump" {
		r.Node = textAt(part, "bootstrap", "node", "id")
	}
	for _, s := range sections[kind] {
		for _, item := range listAt(part, s.list) {
			r.put(s, at(item, s.in), item)
		}
	}
	for _, item := range listAt(part, "dynamic_listeners") {
		r.addListener(item)
	}
}

// put takes in one resource. What is of the bootstrap stands beside what is dynamic, and what is in use beside
// what warms.
func (r *Running) put(s section, content, item any) {
	m, ok := content.(map[string]any)
	if !ok {
		return // such as a secret that has not come yet
	}
	delete(m, "@type")
	field := s.name
	if field == "" {
		field = "name"
	}
	name := textAt(m, field)
	out := resource{content: m, dynamic: s.dynamic, warming: s.warming}
	if text := textAt(item, "error_state", "details"); text != "" {
		out.notes = []string{text}
	}
	if s.typ == Secret {
		if out.content, ok = fingerprint(m); !ok {
			return
		}
	}
	key := id{s.typ, name}
	if old, ok := r.resources[key]; ok && (!old.dynamic || out.warming) {
		return
	}
	r.resources[key] = out
}

// addListener takes in a dynamic listener, which may be in use and in the making at once. One that drains is on
// its way out.
func (r *Running) addListener(item any) {
	s := section{typ: Listener, dynamic: true}
	if active := at(item, "active_state", "listener"); active != nil {
		r.put(s, active, item)
	} else if warming := at(item, "warming_state", "listener"); warming != nil {
		s.warming = true
		r.put(s, warming, item)
	}
}

// fingerprint is a secret as the control plane tells of it: Envoy covers keys, and certificates are no secret.
func fingerprint(secret map[string]any) (any, bool) {
	for _, path := range [][]string{{"tls_certificate", "certificate_chain"}, {"validation_context", "trusted_ca"}} {
		source := at(secret, path...)
		if source == nil {
			continue
		}
		content := []byte(textAt(source, "inline_string"))
		if raw := textAt(source, "inline_bytes"); raw != "" {
			decoded, err := base64.StdEncoding.DecodeString(raw)
			if err != nil {
				return nil, false
			}
			content = decoded
		}
		sum := sha256.Sum256(content)
		return map[string]any{"name": textAt(secret, "name"), "sha256": hex.EncodeToString(sum[:])}, true
	}
	return nil, false
}

// unsent reports whether a resource is a list of endpoints that did not come by itself: Envoy lists those of
// clusters that have none, or have them inline, too.
func (r Running) unsent(key id) bool {
	if key.typ != Endpoint {
		return false
	}
	cluster, ok := r.resources[id{Cluster, key.name}]
	return len(listAt(r.resources[key].content, "endpoints")) == 0 || ok && textAt(cluster.content, "type") != "EDS"
}

// unused reports whether nothing can run under the name of a list of endpoints because its cluster is not
// there, of which is told by itself.
func (r Running) unused(cluster string) bool {
	c, ok := r.resources[id{Cluster, cluster}]
	return !ok || !c.dynamic || c.warming
}
