package server_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/hds/server"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/snapshot"
	"github.com/catenary-mesh/catenary/xds"
)

// admitted is a guard by tokens that lets in everyone who has one.
type admitted struct{}

// Admit implements [xds.Guard].
func (admitted) Admit(ctx context.Context, c snapshot.Client) (*xds.Grant, error) {
	if c.ID == "stranger" {
		return nil, status.Error(codes.PermissionDenied, "a stranger")
	}
	return &xds.Grant{Release: func() {}, Err: func() error { return nil }}, nil
}

func TestManyNamesUnderOneTokenHaveOneVote(t *testing.T) {
	r := newRig(t, func(c *server.Config) { c.Guard = admitted{} })
	r.service("api", tcp(), 8001)
	r.checker("honest", allUp, "x-consul-token", "one")
	r.checker("fair", allUp, "x-consul-token", "two")
	for i := range 5 {
		r.checker(fmt.Sprint("sybil", i), allDown, "x-consul-token", "three")
	}
	testenv.Eventually(t, patience, func() error {
		if n := len(r.server.Checkers()); n != 7 {
			return fmt.Errorf("%d checkers", n)
		}
		return nil
	})
	r.verdicts("api", map[int]bool{8001: true})
	working := 0
	for _, c := range r.server.Checkers() {
		if c.State == "working" {
			working++
		}
	}
	if working != 3 {
		t.Errorf("%d checkers work, want one for each token: %+v", working, r.server.Checkers())
	}
}

func TestAnotherStreamOfOneIdentityTakesOver(t *testing.T) {
	r := newRig(t, func(c *server.Config) { c.Guard = admitted{} })
	r.service("api", tcp(), 8001)
	first := r.checker("a", allUp, "x-consul-token", "one")
	first.probes(8001)
	r.verdicts("api", map[int]bool{8001: true})
	second := r.checker("b", allDown, "x-consul-token", "one")
	testenv.Eventually(t, patience, func() error {
		if n := len(r.server.Checkers()); n != 2 {
			return fmt.Errorf("%d checkers", n)
		}
		return nil
	})
	second.probes()
	first.stop()
	second.probes(8001)
	r.verdicts("api", map[int]bool{8001: false})
}

func TestWhoIsNotAdmittedIsToldSo(t *testing.T) {
	r := newRig(t, func(c *server.Config) { c.Guard = admitted{} })
	c := r.checker("stranger", allUp)
	select {
	case err := <-c.ended:
		if status.Code(err) != codes.PermissionDenied {
			t.Errorf("%v", err)
		}
	case <-time.After(patience):
		t.Fatal("a stranger is heard")
	}
}

func TestARegisteredProxyIsAnIdentityOfItsOwnAndAClaimIsNot(t *testing.T) {
	r := newRig(t, func(c *server.Config) { c.Guard = admitted{} })
	r.service("api", tcp(), 8001)
	var registered []*facts.Instance
	for _, id := range []string{"p1", "p2"} {
		registered = append(registered, &facts.Instance{
			Node:    facts.Node{Node: "n1", Address: "127.0.0.1", ModifyIndex: 1},
			Service: facts.Service{Kind: "connect-proxy", ID: id, Service: "checker-proxy", ModifyIndex: 1, Proxy: &facts.Proxy{DestinationServiceName: "checker"}},
		})
	}
	r.store.Commit(func(tx *facts.Tx) { tx.Instances(facts.Proxies("dc1", "checker"), registered, confirmed) })
	for _, id := range []string{"p1@n1", "p2@N1", "p3@n1", "p1@elsewhere", "p1"} {
		r.checker(id, allUp, "x-consul-token", "one for all")
	}
	testenv.Eventually(t, patience, func() error {
		ids := map[string]int{}
		for _, c := range r.server.Checkers() {
			ids[c.Checker]++
		}
		if len(ids) != 3 || ids["proxy:n1/p1"] != 1 || ids["proxy:n1/p2"] != 1 {
			return fmt.Errorf("identities %v, want two of proxies, and one for all others of the token", ids)
		}
		return nil
	})
}
