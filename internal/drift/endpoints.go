package drift

import (
	"encoding/json"
	"fmt"
)

// byAddress arranges the endpoints of a list by address, with what counts of each: Envoy does not keep the list
// as it came. told is the health that it was told of each; nil where the list itself says it.
func byAddress(list any, told map[string]string) map[string]any {
	out := map[string]any{}
	for _, group := range listAt(list, "endpoints") {
		for _, e := range listAt(group, "lb_endpoints") {
			key := address(at(e, "endpoint", "address"))
			health := textAt(e, "health_status")
			if health == "" {
				health = "UNKNOWN"
			}
			if h, ok := told[key]; ok {
				health = h
			}
			one := map[string]any{"health": health, "weight": 1.0, "priority": 0.0}
			for field, v := range map[string]any{
				"weight": at(e, "load_balancing_weight"), "priority": at(group, "priority"),
			} {
				if v != nil {
					one[field] = v
				}
			}
			for _, field := range []string{"region", "zone", "sub_zone"} {
				if text := textAt(group, "locality", field); text != "" {
					one[field] = text
				}
			}
			out[key] = one
		}
	}
	return out
}

// address is that of an endpoint as people write it.
func address(v any) string {
	if host := textAt(v, "socket_address", "address"); host != "" {
		return fmt.Sprintf("%s:%v", host, at(v, "socket_address", "port_value"))
	}
	if path := textAt(v, "pipe", "path"); path != "" {
		return path
	}
	return value(v)
}

// addHealth reads what /clusters?format=json tells of the endpoints of clusters.
func (r *Running) addHealth(clusters []byte) error {
	var answer map[string]any
	if err := json.Unmarshal(clusters, &answer); err != nil {
		return fmt.Errorf("the list of clusters is no JSON: %w", err)
	}
	for _, c := range listAt(answer, "cluster_statuses") {
		hosts := map[string]string{}
		for _, h := range listAt(c, "host_statuses") {
			if health := textAt(h, "health_status", "eds_health_status"); health != "" {
				hosts[address(at(h, "address"))] = health
			}
		}
		name := textAt(c, "eds_service_name")
		if name == "" {
			name = textAt(c, "name")
		}
		r.health[name] = hosts
	}
	return nil
}
