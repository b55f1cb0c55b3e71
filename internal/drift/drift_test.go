package drift_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/internal/drift"
)

// dump is what an Envoy says of itself: parts of it in the form of Envoy 1.40.
func dump(parts ...string) string {
	boot := `{"@type": "type.googleapis.com/envoy.admin.v3.BootstrapConfigDump", "bootstrap": {"node": {"id": "web-1"}}}`
	return `{"configs": [` + strings.Join(append([]string{boot}, parts...), ",") + `]}`
}

func part(kind, lists string) string {
	return fmt.Sprintf(`{"@type": "type.googleapis.com/envoy.admin.v3.%s", %s}`, kind, lists)
}

func clusters(lists string) string { return part("ClustersConfigDump", lists) }

const edsCluster = `{"@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster", "name": "c", "type": "EDS", "connect_timeout": "5s"}`

func endpointDump(health string) string {
	return part("EndpointsConfigDump", `"dynamic_endpoint_configs": [{"endpoint_config": {
  "@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment", "cluster_name": "c",
  "endpoints": [{"locality": {}, "lb_endpoints": [{"endpoint": {"address": {"socket_address": {"address": "10.0.0.1", "port_value": 80}},
    "health_check_config": {}}, "health_status": "`+health+`", "metadata": {}, "load_balancing_weight": 3}]}], "policy": {"overprovisioning_factor": 140}}}]`)
}

const sentEndpoints = `{"cluster_name": "c", "endpoints": [{"lb_endpoints": [{"endpoint": {"address": {"socket_address": {"address": "10.0.0.1", "port_value": 80}}},
  "health_status": "HEALTHY", "load_balancing_weight": 3}], "load_balancing_weight": 3}]}`

const ejected = `{"cluster_statuses": [{"name": "c", "host_statuses": [{"address": {"socket_address": {"address": "10.0.0.1", "port_value": 80}},
  "health_status": {"failed_outlier_check": true, "eds_health_status": "HEALTHY"}}]}]}`

func active(cluster string) string {
	return `"dynamic_active_clusters": [{"cluster": ` + cluster + `}]`
}

func TestDifferences(t *testing.T) {
	cluster := drift.Sent{Type: drift.Cluster, Name: "c", Content: json.RawMessage(`{"name": "c", "type": "EDS", "connect_timeout": "5s"}`)}
	endpoints := drift.Sent{Type: drift.Endpoint, Name: "c", Content: json.RawMessage(sentEndpoints)}
	with := func(s drift.Sent, change func(*drift.Sent)) drift.Sent { change(&s); return s }
	for _, tt := range []struct {
		name  string
		sent  []drift.Sent
		parts []string
		hosts string
		want  string
	}{
		{"synced", []drift.Sent{cluster, endpoints}, []string{clusters(active(edsCluster)), endpointDump("HEALTHY")}, "", ""},
		{
			"a-field",
			[]drift.Sent{cluster},
			[]string{clusters(active(strings.Replace(edsCluster, "5s", "6s", 1)))},
			"", `cluster c differs: connect_timeout: sent "5s", runs "6s"`,
		},
		{
			"a-field-that-nobody-knows",
			[]drift.Sent{cluster},
			[]string{clusters(active(strings.Replace(edsCluster, `"5s"`, `"5s", "new": {"a": [1, {"b": true}]}`, 1)))},
			"", `cluster c differs: new: sent nothing, runs {"a":[1,{"b":true}]}`,
		},
		{"missing", []drift.Sent{cluster, endpoints}, nil, "", "cluster c missing"},
		{"not-sent", nil, []string{clusters(active(edsCluster))}, "", "cluster c not sent"},
		{"removed-and-still-there", []drift.Sent{with(cluster, func(s *drift.Sent) { s.Gone = true })}, []string{clusters(active(edsCluster))}, "", "cluster c not sent: it was removed"},
		{"removed", []drift.Sent{with(cluster, func(s *drift.Sent) { s.Gone = true })}, nil, "", ""},
		{"refused", []drift.Sent{with(cluster, func(s *drift.Sent) { s.Refused = "no" })}, []string{clusters(active(edsCluster))}, "", "cluster c refused: no"},
		{"content-not-known", []drift.Sent{with(cluster, func(s *drift.Sent) { s.Content = nil })}, []string{clusters(active(edsCluster))}, "", "cluster c not comparable: the server does not know any more what it sent"},
		{
			"static",
			[]drift.Sent{cluster},
			[]string{clusters(`"static_clusters": [{"cluster": ` + edsCluster + `}], ` + active(edsCluster))},
			"", "cluster c overridden: the bootstrap of this Envoy has one of that name, which stands",
		},
		{"static-and-not-sent", nil, []string{clusters(`"static_clusters": [{"cluster": ` + edsCluster + `}]`)}, "", ""},
		{"warming", []drift.Sent{cluster, endpoints}, []string{clusters(`"dynamic_warming_clusters": [{"cluster": ` + edsCluster + `}]`)}, "", "cluster c warming"},
		{
			"warming-beside-one-in-use",
			[]drift.Sent{cluster},
			[]string{clusters(active(strings.Replace(edsCluster, "5s", "6s", 1)) + `, "dynamic_warming_clusters": [{"cluster": ` + edsCluster + `}]`)},
			"", `cluster c differs: connect_timeout: sent "5s", runs "6s"`,
		},
		{
			"health",
			[]drift.Sent{cluster, endpoints},
			[]string{clusters(active(edsCluster)), endpointDump("UNHEALTHY")},
			"", `endpoint c differs: 10.0.0.1:80.health: sent "HEALTHY", runs "UNHEALTHY"`,
		},
		{"ejected-by-envoy-itself", []drift.Sent{cluster, endpoints}, []string{clusters(active(edsCluster)), endpointDump("UNHEALTHY")}, ejected, ""},
		{
			"endpoints-of-a-cluster-that-has-them-inline",
			[]drift.Sent{with(cluster, func(s *drift.Sent) { s.Content = json.RawMessage(`{"name": "c", "type": "STATIC"}`) })},
			[]string{clusters(active(`{"name": "c", "type": "STATIC"}`)), endpointDump("HEALTHY")},
			"", "",
		},
		{
			"a-listener-in-the-making",
			[]drift.Sent{{Type: drift.Listener, Name: "l", Content: json.RawMessage(`{"name": "l"}`)}},
			[]string{part("ListenersConfigDump", `"dynamic_listeners": [{"name": "l", "warming_state": {"listener": {"name": "l"}}, "error_state": {"details": "no such port"}}]`)},
			"", "listener l warming: no such port",
		},
		{
			"a-secret",
			[]drift.Sent{{Type: drift.Secret, Name: "s", Content: json.RawMessage(`{"name": "s", "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}`)}},
			[]string{part("SecretsConfigDump", `"dynamic_active_secrets": [{"secret": {"name": "s", "tls_certificate": {"certificate_chain": {"inline_bytes": "YWJj"}, "private_key": {"inline_bytes": "W3JlZGFjdGVkXQ=="}}}}]`)},
			"", "",
		},
		{
			"another-certificate",
			[]drift.Sent{{Type: drift.Secret, Name: "s", Content: json.RawMessage(`{"name": "s", "sha256": "1"}`)}},
			[]string{part("SecretsConfigDump", `"dynamic_active_secrets": [{"secret": {"name": "s", "validation_context": {"trusted_ca": {"inline_string": "abc"}}}}]`)},
			"", `secret s differs: sha256: sent "1", runs "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"`,
		},
		{"of-a-type-that-envoy-does-not-tell", []drift.Sent{{Type: "virtualhost", Name: "v"}}, nil, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			running, err := drift.Parse([]byte(dump(tt.parts...)), []byte(tt.hosts))
			if err != nil || running.Node != "web-1" {
				t.Fatal(running.Node, err)
			}
			var got []string
			for _, d := range drift.Compare(tt.sent, running) {
				got = append(got, strings.TrimSuffix(d.Type+" "+d.Name+" "+d.What+": "+strings.Join(d.Details, "; "), ": "))
			}
			if strings.Join(got, "\n") != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestManyDifferencesOfOneResourceAreCut(t *testing.T) {
	sent, runs := map[string]any{"name": "r"}, map[string]any{"name": "r"}
	for i := range 50 {
		sent[fmt.Sprintf("f%02d", i)], runs[fmt.Sprintf("f%02d", i)] = i, strings.Repeat("x", 1000)
	}
	a, _ := json.Marshal(sent)
	b, _ := json.Marshal(runs)
	running, err := drift.Parse([]byte(dump(part("RoutesConfigDump", `"dynamic_route_configs": [{"route_config": `+string(b)+`}]`))), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := drift.Compare([]drift.Sent{{Type: drift.Route, Name: "r", Content: a}}, running)
	if len(got) != 1 || len(got[0].Details) != 21 || got[0].Details[20] != "and 30 more" || len(got[0].Details[0]) > 300 {
		t.Errorf("%v", got)
	}
}

func TestWhatIsNoDump(t *testing.T) {
	for _, text := range []string{"", "<html>", "{}", "[]", `{"configs": 1}`} {
		if _, err := drift.Parse([]byte(text), nil); err == nil {
			t.Errorf("%q is taken for a dump", text)
		}
	}
	if _, err := drift.Parse([]byte(dump()), []byte("no")); err == nil {
		t.Error("a list of clusters that is none is taken")
	}
}

// FuzzCompare reads what anything may answer where an Envoy should be.
func FuzzCompare(f *testing.F) {
	f.Add(dump(clusters(active(edsCluster)), endpointDump("HEALTHY")), ejected, sentEndpoints)
	f.Add(dump(clusters(`"static_clusters": [null, 1, {"cluster": []}]`)), "", "null")
	f.Add(dump(part("ListenersConfigDump", `"dynamic_listeners": [{"active_state": 7}]`)), `{"cluster_statuses": [[]]}`, "[]")
	f.Fuzz(func(_ *testing.T, config, hosts, sent string) {
		running, err := drift.Parse([]byte(config), []byte(hosts))
		if err != nil {
			return
		}
		drift.Compare([]drift.Sent{
			{Type: drift.Endpoint, Name: "c", Content: json.RawMessage(sent)}, {Type: drift.Cluster, Name: "c", Content: json.RawMessage(sent)},
		}, running)
	})
}
