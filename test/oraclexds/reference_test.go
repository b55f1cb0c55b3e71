package oraclexds_test

import (
	"fmt"
	"maps"
)

// follow replaces what a tree asks for under another name than the other one by what it leads to. The
// reference remains, so that it is a difference, and what it leads to is compared.
func follow(other, t tree) {
	inlineRoutes(other, t)
	renameEndpoints(other, t)
}

// inlineRoutes puts routes that are asked for by name where the other server has routes of that name.
func inlineRoutes(other, t tree) {
	inline := map[string]bool{}
	eachObject(other["Listener"], func(o object) {
		if routes, ok := o["route_config"].(object); ok {
			inline[fmt.Sprint(routes["name"])] = true
		}
	})
	eachObject(t["Listener"], func(o object) {
		reference, _ := o["rds"].(object)
		name, _ := reference["route_config_name"].(string)
		if found := t["RouteConfiguration"][name]; found != nil && inline[name] {
			o["route_config"] = found
			delete(t["RouteConfiguration"], name)
		}
	})
}

// renameEndpoints gives endpoints the name of the cluster that they are asked for by, where the other
// server has endpoints of that name.
func renameEndpoints(other, t tree) {
	const kind = "ClusterLoadAssignment"
	shared := map[string]bool{}
	for name, cluster := range t["Cluster"] {
		o, _ := cluster.(object)
		eds, _ := o["eds_cluster_config"].(object)
		asked, _ := eds["service_name"].(string)
		found, _ := t[kind][asked].(object)
		if asked == name || found == nil || other[kind][name] == nil {
			continue
		}
		own := maps.Clone(found)
		own["cluster_name"] = name
		t[kind][name] = own
		shared[asked] = true
	}
	for name := range shared {
		if other[kind][name] == nil {
			delete(t[kind], name)
		}
	}
}

// eachObject calls f for all objects in a value.
func eachObject(value any, f func(object)) {
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			eachObject(element, f)
		}
	case object:
		for _, field := range value {
			eachObject(field, f)
		}
		f(value)
	}
}
