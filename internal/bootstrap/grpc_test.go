package bootstrap

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	grpcxds "google.golang.org/grpc/xds"
)

// grpcConfigs are one configuration for each file of the name in testdata.
func grpcConfigs() map[string]GRPCConfig {
	return map[string]GRPCConfig{
		"grpc-plain": {Service: "web"},
		"grpc-mesh":  {Service: "web", NodeID: "web-7", GRPCAddr: "mesh.example:443", CertDir: "/run/web", CAFile: "/etc/catenary/ca.pem"},
		"grpc-shown": {
			Service: "web", GRPCAddr: "[::1]:18000", CertDir: "/run/web", CAFile: "/etc/catenary/ca.pem",
			CertFile: "/etc/catenary/web.pem", KeyFile: "/etc/catenary/web-key.pem",
		},
		"grpc-unshown": {Service: "web", CertDir: "/run/web"},
	}
}

func TestGRPCBootstrap(t *testing.T) {
	for name, cfg := range grpcConfigs() {
		t.Run(name, func(t *testing.T) {
			got, err := GRPC(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := grpcxds.NewXDSResolverWithConfigForTesting(got); err != nil {
				t.Errorf("gRPC refuses it: %v", err)
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
				t.Errorf("the bootstrap is not that in %s:\n%s", file, got)
			}
		})
	}
}

func TestGRPCBootstrapIsReadBack(t *testing.T) {
	out, err := GRPC(GRPCConfig{Service: "web", CertDir: "/run/web"})
	if err != nil {
		t.Fatal(err)
	}
	var whole struct {
		Node struct{ Metadata map[string]json.RawMessage }
	}
	if err := json.Unmarshal(out, &whole); err != nil {
		t.Fatal(err)
	}
	m, err := ParseMetadata(whole.Node.Metadata[MetadataKey])
	if err != nil || m.Service != "web" || !m.Mesh || len(m.Upstreams) > 0 {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestGRPCBootstrapRefuses(t *testing.T) {
	for want, cfg := range map[string]GRPCConfig{
		"service":                  {},
		"control character":        {Service: "web", NodeID: "a\nb"},
		"is not HOST:PORT":         {Service: "web", GRPCAddr: "mesh.example"},
		"port 0":                   {Service: "web", GRPCAddr: "mesh.example:0"},
		"needs its key":            {Service: "web", CAFile: "/ca.pem", CertFile: "/a/leaf.pem"},
		"over TLS only":            {Service: "web", CertFile: "/a/leaf.pem", KeyFile: "/a/key.pem"},
		"in different directories": {Service: "web", CAFile: "/ca.pem", CertFile: "/a/leaf.pem", KeyFile: "/b/key.pem"},
	} {
		if _, err := GRPC(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", cfg, err, want)
		}
	}
}
