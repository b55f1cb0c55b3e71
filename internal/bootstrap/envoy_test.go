package bootstrap

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// goldenConfigs are one configuration for each file in testdata.
func goldenConfigs(t *testing.T) map[string]EnvoyConfig {
	t.Helper()
	ca, err := os.ReadFile("testdata/ca.pem")
	if err != nil {
		t.Fatal(err)
	}
	api := Upstream{Service: "api", BindAddress: "127.0.0.1", BindPort: 9191}
	return map[string]EnvoyConfig{
		"defaults": {Service: "web"},
		"upstreams": {
			Service: "web", ProxyID: "web-7",
			Upstreams: []Upstream{
				api,
				{Service: "db", BindAddress: "127.0.0.2", BindPort: 5432},
				{Service: "stock", Datacenter: "dc2", BindAddress: "::1", BindPort: 9292},
			},
		},
		"token-sotw":   {Service: "web", Upstreams: []Upstream{api}, Token: "b1gs33cr3t", SotW: true, AdminBind: "[::1]:0"},
		"checker":      {Service: "web", Upstreams: []Upstream{api}, Token: "b1gs33cr3t", HDS: true, Region: "eu", Zone: "eu-1"},
		"load-reports": {Service: "web", Upstreams: []Upstream{api}, Token: "b1gs33cr3t", LoadReports: true},
		"tls-name":     {Service: "web", Upstreams: []Upstream{api}, GRPCAddr: "mesh.example:443", GRPCCA: string(ca)},
		"tls-ip":       {Service: "web", Upstreams: []Upstream{api}, GRPCAddr: "[0:0:0:0:0:0:0:1]:18000", GRPCCA: string(ca)},
		"sidecar": {
			Service: "web", ProxyID: "web-sidecar-proxy",
			Sidecar: &Sidecar{Node: "node-1", Datacenter: "dc1", OmitDeprecatedTags: true},
		},
		"sidecar-telemetry": {
			Service: "web", ProxyID: "web-sidecar-proxy", AdminBind: "0.0.0.0:19001", GRPCAddr: "mesh.example:443", GRPCCA: string(ca), Token: "b1gs33cr3t",
			Sidecar: &Sidecar{Node: "node-1", Datacenter: "dc1", Telemetry: Telemetry{
				ReadyBind: "127.0.0.1:2000", PrometheusBind: "0.0.0.0:9102", PrometheusPath: "/scrape", StatsBind: "127.0.0.1:9103",
				StatsdURL: "udp://127.0.0.1:9125", DogStatsdURL: "unix:///var/run/dog.sock",
				Tags: []string{"zone=a", "canary"}, FlushInterval: 7 * time.Second,
			}},
		},
	}
}

func TestEnvoyBootstrap(t *testing.T) {
	for name, cfg := range goldenConfigs(t) {
		t.Run(name, func(t *testing.T) {
			got, err := Envoy(cfg)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", name+".json")
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != string(want) {
				t.Errorf("%s differs (-update accepts it); got\n%s", file, got)
			}
		})
	}
}

func TestWhatABootstrapSaysIsWhatMetadataReads(t *testing.T) {
	cfg := goldenConfigs(t)["upstreams"]
	text, err := Envoy(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var b struct {
		Node struct {
			Metadata map[string]json.RawMessage `json:"metadata"`
		} `json:"node"`
	}
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	got, err := ParseMetadata(b.Node.Metadata[MetadataKey])
	if err != nil || fmt.Sprint(got) != fmt.Sprint(cfg.metadata()) {
		t.Errorf("got %+v, %v; want %+v", got, err, cfg.metadata())
	}
}

func TestEnvoyRefusesWhatEnvoyWould(t *testing.T) {
	api := Upstream{Service: "api", BindAddress: "127.0.0.1", BindPort: 9191}
	for name, tc := range map[string]struct {
		cfg    EnvoyConfig
		reason string
	}{
		"no service":          {EnvoyConfig{}, "the service has no name"},
		"gRPC without port":   {EnvoyConfig{Service: "web", GRPCAddr: "10.0.0.1"}, `the gRPC address "10.0.0.1" is not HOST:PORT`},
		"gRPC without host":   {EnvoyConfig{Service: "web", GRPCAddr: ":18000"}, `the gRPC address ":18000" is not HOST:PORT`},
		"gRPC as URL":         {EnvoyConfig{Service: "web", GRPCAddr: "http://10.0.0.1:18000"}, "is not HOST:PORT"},
		"gRPC named port":     {EnvoyConfig{Service: "web", GRPCAddr: "10.0.0.1:grpc"}, `the port "grpc"`},
		"gRPC port 0":         {EnvoyConfig{Service: "web", GRPCAddr: "10.0.0.1:0"}, "has port 0"},
		"admin by name":       {EnvoyConfig{Service: "web", AdminBind: "localhost:19000"}, "binds to an IP address"},
		"admin port too high": {EnvoyConfig{Service: "web", AdminBind: "127.0.0.1:70000"}, `the port "70000"`},
		"token with newline":  {EnvoyConfig{Service: "web", Token: "abc\n"}, "no header can carry"},
		"ID with newline":     {EnvoyConfig{Service: "web", ProxyID: "a\nb"}, "control character"},
		"one port twice":      {EnvoyConfig{Service: "web", Upstreams: []Upstream{api, api}}, "both listen at 127.0.0.1:9191"},
		"no certificate":      {EnvoyConfig{Service: "web", GRPCCA: "-----BEGIN"}, "there is no certificate"},
		"doors without port":  {EnvoyConfig{Service: "web", AdminBind: "127.0.0.1:0", Sidecar: &Sidecar{Telemetry: Telemetry{ReadyBind: "127.0.0.1:1"}}}, "--admin-bind"},
		"a door by name":      {EnvoyConfig{Service: "web", Sidecar: &Sidecar{Telemetry: Telemetry{StatsBind: "localhost:1"}}}, "binds to an IP address"},
		"a sink by name":      {EnvoyConfig{Service: "web", Sidecar: &Sidecar{Telemetry: Telemetry{StatsdURL: "udp://localhost:1"}}}, "wants an IP address"},
		"a sink over TCP":     {EnvoyConfig{Service: "web", Sidecar: &Sidecar{Telemetry: Telemetry{StatsdURL: "tcp://127.0.0.1:1"}}}, "is neither"},
		"upstream by hand":    {EnvoyConfig{Service: "web", Upstreams: []Upstream{{Service: "api"}}}, "is not an IP address"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Envoy(tc.cfg)
			if err == nil || !strings.Contains(err.Error(), tc.reason) {
				t.Errorf("got %v; want an error about %q", err, tc.reason)
			}
		})
	}
}

func TestTheTokenIsNotPrinted(t *testing.T) {
	cfg := EnvoyConfig{Service: "web", Token: "b1gs33cr3t bad"}
	_, err := Envoy(cfg)
	for _, text := range []string{fmt.Sprintf("%v %+v %#v %s %q", cfg, cfg, cfg, cfg.Token, cfg.Token), err.Error()} {
		if strings.Contains(text, "b1gs33cr3t") {
			t.Errorf("the token is in %q", text)
		}
	}
}
