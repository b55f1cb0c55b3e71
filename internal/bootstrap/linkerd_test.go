package bootstrap

import (
	"strings"
	"testing"
)

func TestTheEnvironmentOfALinkerdProxy(t *testing.T) {
	out, err := Linkerd(LinkerdConfig{Node: "n1", Zone: "a", Suffixes: []string{"consul", ".svc.cluster.local."}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"LINKERD2_PROXY_DESTINATION_SVC_ADDR=" + DefaultGRPCAddr + "\n",
		"LINKERD2_PROXY_POLICY_SVC_ADDR=" + DefaultGRPCAddr + "\n",
		`LINKERD2_PROXY_DESTINATION_CONTEXT={"nodeName":"n1","zone":"a"}` + "\n",
		"LINKERD2_PROXY_DESTINATION_PROFILE_SUFFIXES=consul.,svc.cluster.local.\n",
		"LINKERD2_PROXY_DESTINATION_PROFILE_NETWORKS=" + DefaultLinkerdNetworks + "\n",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%s is not in\n%s", want, out)
		}
	}
	if strings.Contains(string(out), "SVC_NAME") || strings.Contains(string(out), "IDENTITY") {
		t.Errorf("what was not said is in\n%s", out)
	}
	out, err = Linkerd(LinkerdConfig{GRPCAddr: "10.0.0.1:18000", ServerName: "catenary.example", SPIRESocket: "/run/s", Identity: "spiffe://x/a", IdentityName: "a.example"})
	if err != nil || !strings.Contains(string(out), "DESTINATION_SVC_NAME=catenary.example") ||
		!strings.Contains(string(out), "IDENTITY_SERVER_ID=spiffe://x/a\nLINKERD2_PROXY_IDENTITY_SERVER_NAME=a.example\n") {
		t.Errorf("got %v and\n%s", err, out)
	}
	out, err = Linkerd(LinkerdConfig{SPIRESocket: "/run/s", Identity: "spiffe://x.consul/ns/default/dc/dc1/svc/Web"})
	if err != nil || !strings.Contains(string(out), "IDENTITY_SERVER_NAME=web.default.dc1.internal.x.consul\n") {
		t.Errorf("of an identity of Consul: %v and\n%s", err, out)
	}
	for _, bad := range []LinkerdConfig{
		{GRPCAddr: "nowhere"}, {GRPCAddr: "10.0.0.1:1"}, {Networks: []string{"x"}}, {SPIRESocket: "/s"}, {SPIRESocket: "/s", Identity: "spiffe://x/a"}, {ServerName: "a\nb"},
	} {
		if out, err := Linkerd(bad); err == nil {
			t.Errorf("%+v: got\n%s", bad, out)
		}
	}
}
