package bootstrap_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/catenary-mesh/catenary/internal/bootstrap"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// tagged is what becomes of the name of a statistic: its tags, and by each of them what goes from it.
func tagged(t *testing.T, boot []byte, name string) map[string]string {
	t.Helper()
	var b struct {
		Stats struct {
			Tags []struct {
				Name  string `json:"tag_name"`
				Regex string `json:"regex"`
				Fixed string `json:"fixed_value"`
			} `json:"stats_tags"`
			All bool `json:"use_all_default_tags"`
		} `json:"stats_config"`
	}
	if err := json.Unmarshal(boot, &b); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{"all default tags": fmt.Sprint(b.Stats.All)}
	for _, tag := range b.Stats.Tags {
		if tag.Regex == "" {
			out[tag.Name] = "always " + tag.Fixed
			continue
		}
		if found := regexp.MustCompile(tag.Regex).FindStringSubmatch(name); found != nil {
			value := found[len(found)-1]
			out[tag.Name] = fmt.Sprintf("%s, without %s", value, found[1])
		}
	}
	return out
}

func TestTheTagsOfStatisticsAreThoseOfConsulsSidecars(t *testing.T) {
	consul := testenv.StartConsul(t)
	registration := filepath.Join(t.TempDir(), "web.hcl")
	text := []byte(`services { name = "web", port = 8080, connect { sidecar_service {} } }`)
	if err := os.WriteFile(registration, text, 0o600); err != nil {
		t.Fatal(err)
	}
	consul.CLI("", "services", "register", registration)
	const td = "11111111-2222-3333-4444-555555555555.consul"
	names := []string{
		"cluster.local_app.upstream_rq_total", "cluster.catenary.upstream_cx_total", "http.public_listener.downstream_rq_total",
		"tcp.upstream.api.default.default.dc1.downstream_cx_total", "http.upstream.api.default.default.dc1.downstream_rq_2xx",
		"http.upstream.api.dc1.downstream_rq_2xx", "http.upstream.api.team.dc1.downstream_rq_2xx",
		"http.upstream_peered.api.default.cloud.downstream_rq_2xx", "tcp.upstream_peered.api.cloud.downstream_cx_total",
		"cluster.api.default.cloud.external." + td + ".upstream_rq_total", "http.upstream.prepared_query_api.downstream_rq_total",
	}
	for _, target := range []string{
		"api.default.dc1.internal.", "v1.api.default.dc1.internal.", "96f2c150~api.default.dc1.internal.", "96f2c150~v1.api.default.dc1.internal.",
		"api.team.part.dc1.internal-v1.", "v1.api.team.part.dc1.internal-v1.", "api.cloud.external.", "passthrough~api.default.dc1.internal.",
		"failover-target~0~api.default.dc1.internal.",
	} {
		names = append(names, "cluster."+target+td+".upstream_rq_total")
	}
	for _, omit := range []bool{false, true} {
		theirs := []byte(consul.CLI("", "connect", "envoy", "-sidecar-for", "web", "-bootstrap", "-ignore-envoy-compatibility",
			fmt.Sprintf("-omit-deprecated-tags=%t", omit)))
		ours, err := bootstrap.Envoy(bootstrap.EnvoyConfig{
			Service: "web", ProxyID: "web-sidecar-proxy",
			Sidecar: &bootstrap.Sidecar{Node: "n", Datacenter: "dc1", OmitDeprecatedTags: omit},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			got, want := tagged(t, ours, name), tagged(t, theirs, name)
			if len(want) < 5 || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s (omit %t)\n got %q\nwant %q", name, omit, got, want)
			}
		}
	}
}

// nothing tells who asks that there is nothing.
type nothing struct{ *greeter }

func (n nothing) DeltaAggregatedResources(s discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	for {
		req, err := s.Recv()
		if err != nil {
			return err
		}
		if req.GetResponseNonce() != "" {
			continue
		}
		select {
		case n.hellos <- hello{delta: true, node: req.GetNode()}:
		default:
		}
		if err := s.Send(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: req.GetTypeUrl(), Nonce: "1"}); err != nil {
			return err
		}
	}
}

func TestARealEnvoyShowsThatItIsReadyAndItsStatistics(t *testing.T) {
	for _, v := range []testenv.EnvoyVersion{testenv.NewestEnvoy, testenv.OldestEnvoy} {
		t.Run(string(v), func(t *testing.T) {
			g := nothing{&greeter{hellos: make(chan hello, 1)}}
			addr := serveAs(t, "127.0.0.1", g)
			bind := func() string { return fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t)) }
			telemetry := bootstrap.Telemetry{
				ReadyBind: bind(), PrometheusBind: bind(), StatsBind: bind(), StatsdURL: "udp://" + bind(), Tags: []string{"zone=a"},
			}
			text, err := bootstrap.Envoy(bootstrap.EnvoyConfig{
				Service: "web", ProxyID: "web-sidecar-proxy", GRPCAddr: addr, AdminBind: bind(),
				Sidecar: &bootstrap.Sidecar{Node: "node-1", Datacenter: "dc1", Telemetry: telemetry},
			})
			if err != nil {
				t.Fatal(err)
			}
			testenv.StartEnvoy(t, text, testenv.WithEnvoyVersion(v))
			if n := g.await(t).node; n.GetId() != "web-sidecar-proxy" || n.GetCluster() != "web" ||
				n.GetMetadata().GetFields()["node_name"].GetStringValue() != "node-1" || n.GetMetadata().GetFields()[bootstrap.MetadataKey] != nil {
				t.Errorf("it introduces itself as %v", n)
			}
			for url, want := range map[string]string{
				telemetry.ReadyBind + "/ready":        "200 LIVE",
				telemetry.ReadyBind + "/stats":        "404 ",
				telemetry.PrometheusBind + "/metrics": `200 local_cluster="web"`,
				telemetry.PrometheusBind + "/":        "404 ",
				telemetry.StatsBind + "/stats?x":      "200 cluster.catenary.",
			} {
				testenv.Eventually(t, deadline, func() error {
					code, body, err := testenv.Get("http://"+url, http.Header{})
					status, text, _ := strings.Cut(want, " ")
					if err == nil && (fmt.Sprint(code) != status || !strings.Contains(body, text)) {
						err = fmt.Errorf("%s: %d %.200s, want %s", url, code, body, want)
					}
					return err
				})
			}
		})
	}
}
