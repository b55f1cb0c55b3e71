package bootstrap

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Telemetry is how the state and the statistics of an Envoy are to be had. Addresses are IP:PORT; empty ones
// are not listened at.
type Telemetry struct {
	// ReadyBind answers /ready, with 200 once the Envoy serves.
	ReadyBind string
	// PrometheusBind answers PrometheusPath, by default /metrics, in the format of Prometheus, and StatsBind
	// answers /stats as Envoy's admin API does.
	PrometheusBind, PrometheusPath, StatsBind string
	// StatsdURL and DogStatsdURL are where statistics are sent to: udp://IP:PORT, or unix:///PATH.
	StatsdURL, DogStatsdURL string
	// Tags are added to all statistics, each NAME=VALUE or NAME, which is 1.
	Tags []string
	// FlushInterval is how often they are sent; zero is Envoy's default.
	FlushInterval time.Duration
}

// defaultPrometheusPath is where Prometheus looks by default.
const defaultPrometheusPath = "/metrics"

// TelemetryOf reads what the free-form configuration of a sidecar, with central configuration under it, says
// of its telemetry. The notes are on what there is that cannot be followed.
func TelemetryOf(config map[string]any) (t Telemetry, notes []string) {
	texts := map[string]*string{
		"envoy_prometheus_bind_addr": &t.PrometheusBind, "envoy_stats_bind_addr": &t.StatsBind,
		"envoy_statsd_url": &t.StatsdURL, "envoy_dogstatsd_url": &t.DogStatsdURL,
	}
	for _, key := range slices.Sorted(maps.Keys(config)) {
		name := strings.ToLower(key)
		var err error
		switch field := texts[name]; {
		case field != nil:
			*field, err = textOf(config[key])
		case name == "envoy_stats_tags":
			t.Tags, err = textsOf(config[key])
		case name == "envoy_stats_flush_interval":
			t.FlushInterval, err = intervalOf(config[key])
		case slices.Contains(unsupported, name):
			err = fmt.Errorf("what it changes is not supported")
		}
		if err != nil {
			notes = append(notes, fmt.Sprintf("the sidecar's %s is ignored: %v", key, err))
		}
	}
	return t, notes
}

// unsupported are the keys that change a bootstrap in a way that is not offered here.
var unsupported = []string{
	"envoy_bootstrap_json_tpl", "envoy_extra_static_clusters_json", "envoy_extra_static_listeners_json",
	"envoy_extra_stats_sinks_json", "envoy_stats_sinks_json", "envoy_stats_config_json", "envoy_tracing_json",
	"envoy_telemetry_collector_bind_socket_dir",
}

func textOf(value any) (string, error) {
	text, ok := value.(string)
	if !ok {
		return "", fmt.Errorf("it is a %T and no text", value)
	}
	return text, nil
}

func textsOf(value any) ([]string, error) {
	list, ok := value.([]any)
	if !ok {
		text, err := textOf(value)
		return []string{text}, err
	}
	var texts []string
	for _, v := range list {
		text, err := textOf(v)
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, nil
}

func intervalOf(value any) (time.Duration, error) {
	text, err := textOf(value)
	if err != nil {
		return 0, err
	}
	d, err := time.ParseDuration(text)
	if err == nil && (d < time.Millisecond || d > time.Hour) {
		err = fmt.Errorf("%s is not from 1ms to 1h", text)
	}
	return d, err
}

// tags are those that are added to all statistics.
func (t Telemetry) tags() []tagJSON {
	var tags []tagJSON
	for _, text := range t.Tags {
		name, value, given := strings.Cut(text, "=")
		if !given {
			value = "1"
		}
		tags = append(tags, tagJSON{Name: name, Fixed: value})
	}
	return tags
}

// A door is a listener through which one path of Envoy's admin API is to be had, and nothing else.
type door struct {
	name, bind string
	match      object
	to         string
}

func (t Telemetry) doors() []door {
	path := t.PrometheusPath
	if path == "" {
		path = defaultPrometheusPath
	}
	var open []door
	for _, d := range []door{
		{"envoy_prometheus_metrics", t.PrometheusBind, object{"path": path}, "/stats/prometheus"},
		{"envoy_metrics", t.StatsBind, object{"prefix": "/stats"}, "/stats"},
		{"envoy_ready", t.ReadyBind, object{"path": "/ready"}, "/ready"},
	} {
		if d.bind != "" {
			open = append(open, d)
		}
	}
	return open
}

// adminCluster is Envoy's own admin API, as a cluster.
const adminCluster = "self_admin"

func (d door) listener() (object, error) {
	at, err := parseEndpoint("the address of "+d.name, d.bind)
	if err != nil {
		return nil, err
	}
	if !at.isIP() {
		return nil, fmt.Errorf("the address %q of %s has a name: Envoy binds to an IP address", d.bind, d.name)
	}
	return object{
		"name":    d.name + "_listener",
		"address": at.json(),
		"filter_chains": []object{{"filters": []object{{
			"name": "envoy.filters.network.http_connection_manager",
			"typed_config": object{
				"@type":       "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
				"stat_prefix": d.name,
				"codec_type":  "HTTP1",
				"route_config": object{"name": "self_admin_route", "virtual_hosts": []object{{
					"name": adminCluster, "domains": []string{"*"},
					"routes": []object{
						{"match": d.match, "route": object{"cluster": adminCluster, "prefix_rewrite": d.to}},
						{"match": object{"prefix": "/"}, "direct_response": object{"status": 404}},
					},
				}}},
				"http_filters": []object{{
					"name":         "envoy.filters.http.router",
					"typed_config": object{"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
				}},
			},
		}}}},
	}, nil
}

// selfAdmin is the cluster behind the doors.
func selfAdmin(admin endpoint) (clusterJSON, error) {
	if admin.port == 0 {
		return clusterJSON{}, fmt.Errorf("the admin address has port 0, but what is to be had of it elsewhere needs to know the port: give --admin-bind one")
	}
	if ip, err := netip.ParseAddr(admin.host); err == nil && ip.IsUnspecified() {
		admin.host = "127.0.0.1"
		if ip.Is6() {
			admin.host = "::1"
		}
	}
	return staticCluster(adminCluster, admin, object{"http_protocol_options": object{}}), nil
}

// sinks are where statistics are sent to.
func (t Telemetry) sinks() ([]object, error) {
	var sinks []object
	for _, s := range []struct{ url, name, kind string }{
		{t.StatsdURL, "envoy.stat_sinks.statsd", "StatsdSink"},
		{t.DogStatsdURL, "envoy.stat_sinks.dog_statsd", "DogStatsdSink"},
	} {
		if s.url == "" {
			continue
		}
		address, err := sinkAddress(s.url)
		if err != nil {
			return nil, err
		}
		sinks = append(sinks, object{"name": s.name, "typed_config": object{
			"@type": "type.googleapis.com/envoy.config.metrics.v3." + s.kind, "address": address,
		}})
	}
	return sinks, nil
}

func sinkAddress(text string) (any, error) {
	u, err := url.Parse(text)
	switch {
	case err == nil && u.Scheme == "unix" && u.Path != "":
		return object{"pipe": object{"path": u.Path}}, nil
	case err == nil && u.Scheme == "udp":
		at, err := parseEndpoint("the address of the sink of statistics", u.Host)
		if err == nil && !at.isIP() {
			err = fmt.Errorf("the sink of statistics %q has a name: Envoy wants an IP address there", text)
		}
		if err != nil {
			return nil, err
		}
		return at.json(), nil
	}
	return nil, fmt.Errorf("the sink of statistics %q is neither udp://IP:PORT nor unix:///PATH", text)
}
