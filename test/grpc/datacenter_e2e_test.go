//go:build e2e

package grpc

import (
	"testing"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

func TestClientsReachAnotherDatacenter(t *testing.T) {
	near := testenv.StartConsul(t)
	far := testenv.StartConsul(t, testenv.WithDatacenter("dc2"), testenv.WithWAN(near))
	for name, consul := range map[string]*testenv.Consul{"near": near, "far": far} {
		consul.RegisterService(testenv.Service{Name: "api", Port: testenv.StartGRPCBackend(t, name, nil).Port})
	}
	catenary := testenv.StartCatenary(t, near.Env(), "--consul-addr", near.HTTPAddr())
	testenv.Eventually(t, patience, catenary.Ready)
	for language, start := range languages {
		t.Run(language, func(t *testing.T) {
			r := testenv.Run(t, nil, "bootstrap", "grpc", "--service", "web", "--grpc-addr", catenary.GRPCAddr)
			if r.Code != 0 {
				t.Fatalf("exit %d: %s", r.Code, r.Stderr)
			}
			v := &village{t: t, consul: near, catenary: catenary, client: start(t, []byte(r.Stdout), false)}
			v.settles("api.service.dc2.consul", "far")
			v.settles("api.service.dc1.consul", "near")
			v.settles("api", "near")
			v.takesAll()
		})
	}
}
