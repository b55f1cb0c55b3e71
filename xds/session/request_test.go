package session_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/catenary-mesh/catenary/xds/session"
)

func TestRequestsThatCloseTheStream(t *testing.T) {
	many := make([]string, 11)
	for i := range many {
		many[i] = fmt.Sprint("n", i)
	}
	initial := map[string]string{}
	for _, name := range many {
		initial[name] = "1"
	}
	for name, req := range map[string]*session.Request{
		"is empty":             {TypeURL: session.EndpointURL, Subscribe: []string{""}},
		"not UTF-8":            {TypeURL: session.EndpointURL, Subscribe: []string{"a\xff"}},
		"holds a NUL":          {TypeURL: session.EndpointURL, Unsubscribe: []string{"a\x00b"}},
		"more than the 8":      {TypeURL: session.EndpointURL, Initial: map[string]string{"123456789": ""}},
		"the version of":       {TypeURL: session.EndpointURL, Initial: map[string]string{"a": "123456789"}},
		"version_info":         {TypeURL: session.EndpointURL, Version: "123456789"},
		"no type_url":          {},
		"11 names, more than":  {TypeURL: session.EndpointURL, Subscribe: many},
		"for 11 names, more":   {TypeURL: session.ClusterURL, Initial: initial},
		"than the 10 allowed:": {TypeURL: session.EndpointURL, Subscribe: many},
	} {
		s := session.New(session.Config{Form: session.Delta, MaxNames: 10, MaxNameBytes: 8})
		if err := s.Request(time.Time{}, req); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want an error with %q, got %v", name, err)
		}
	}
}

// TestNamesAreCountedOverTypes: the bound is the stream's, and what is given up is not counted.
func TestNamesAreCountedOverTypes(t *testing.T) {
	s := session.New(session.Config{Form: session.SotW, MaxNames: 3})
	steps := []struct {
		url   string
		names []string
		ok    bool
	}{
		{session.EndpointURL, []string{"a", "b"}, true},
		{session.RouteURL, []string{"r"}, true},
		{session.EndpointURL, []string{"a"}, true},
		{session.RouteURL, []string{"r", "s"}, true},
		{session.RouteURL, []string{"r", "s", "t"}, false},
	}
	for i, step := range steps {
		err := s.Request(time.Time{}, &session.Request{TypeURL: step.url, Names: step.names})
		if (err == nil) != step.ok {
			t.Fatalf("step %d: %v", i, err)
		}
	}
}

// TestNamesGivenUpBesideAWildcardAreBounded: each is owed an answer, which a client can put off for as long
// as it does not answer the response before.
func TestNamesGivenUpBesideAWildcardAreBounded(t *testing.T) {
	o := newOffer()
	o.put("cluster/a=1")
	var now time.Time
	s := session.New(session.Config{Form: session.Delta, MaxNames: 30})
	ask := func(round int, nonce string) error {
		req := &session.Request{TypeURL: session.ClusterURL, Subscribe: []string{"*"}, Nonce: nonce}
		for i := range 10 {
			req.Subscribe = append(req.Subscribe, fmt.Sprintf("%d-%d", round, i))
			req.Unsubscribe = append(req.Unsubscribe, fmt.Sprintf("%d-%d", round-1, i))
		}
		return s.Request(now, req)
	}
	nonce := ""
	for round := range 10 { // in order, any number of them
		if err := ask(round, nonce); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		out, _ := s.Turn(now, o)
		if len(out) != 1 {
			t.Fatalf("round %d: %d responses", round, len(out))
		}
		nonce = out[0].Nonce
	}
	for round := 10; ; round++ {
		if err := ask(round, ""); err != nil {
			break
		}
		s.Turn(now, o)
		if n := s.Status(now).Types[0].Pending; n > 30 {
			t.Fatalf("%d names are noted, of a client that may ask for 30", n)
		}
	}
}

func TestUnservedTypesAreLeftAlone(t *testing.T) {
	s := session.New(session.Config{Form: session.Delta})
	for i := range 100 {
		url := fmt.Sprint("type.googleapis.com/other", i%50)
		if err := s.Request(time.Time{}, &session.Request{TypeURL: url, Subscribe: []string{"x"}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.Status(time.Time{}).Unserved); n == 0 || n > 16 {
		t.Errorf("remembers %d type URLs, want a few", n)
	}
}

// TestOldEnvoyListsItsWildcard: whoever is known to spell a wildcard out means names by names.
func TestOldEnvoyListsItsWildcard(t *testing.T) {
	for name, c := range map[string]struct {
		node *corev3.Node
		want string
	}{
		"unknown client": {nil, "[a b]"},
		"modern Envoy":   {modernEnvoy(), "[a]"},
	} {
		offer := newOffer()
		offer.put("cluster/a=2")
		offer.put("cluster/b=1")
		s := session.New(session.Config{Form: session.Delta})
		err := s.Request(time.Time{}, &session.Request{
			Node: c.node, TypeURL: session.ClusterURL, Subscribe: []string{"a"}, Initial: map[string]string{"a": "1"},
		})
		if err != nil {
			t.Fatal(err)
		}
		out, _ := s.Turn(time.Time{}, offer)
		var names []string
		for _, r := range out[0].Resources {
			names = append(names, r.Name)
		}
		if fmt.Sprint(names) != c.want {
			t.Errorf("%s: got %v, want %s", name, names, c.want)
		}
	}
}

func TestFromMessages(t *testing.T) {
	detail := &status.Status{Code: 3, Message: "no"}
	sotw := session.FromSotW(&discoveryv3.DiscoveryRequest{
		VersionInfo: "v", Node: &corev3.Node{Id: "n"}, ResourceNames: []string{"a"}, TypeUrl: "t", ResponseNonce: "1", ErrorDetail: detail,
	})
	if sotw.Version != "v" || sotw.Node.GetId() != "n" || sotw.Names[0] != "a" || sotw.TypeURL != "t" || sotw.Nonce != "1" ||
		*sotw.Error != (session.Refusal{Code: 3, Message: "no"}) {
		t.Errorf("%+v", sotw)
	}
	delta := session.FromDelta(&discoveryv3.DeltaDiscoveryRequest{
		ResourceNamesSubscribe: []string{"a"}, ResourceNamesUnsubscribe: []string{"b"}, TypeUrl: "t",
		InitialResourceVersions: map[string]string{"c": "1"}, ResponseNonce: "1",
	})
	if delta.Subscribe[0] != "a" || delta.Unsubscribe[0] != "b" || delta.Initial["c"] != "1" || delta.Nonce != "1" || delta.Error != nil {
		t.Errorf("%+v", delta)
	}
}

func TestResponsesAsMessages(t *testing.T) {
	for _, form := range []session.Form{session.SotW, session.Delta} {
		offer := newOffer()
		offer.put("endpoint/a=7")
		s := session.New(session.Config{Form: form, ControlPlane: "catenary-1"})
		names := []string{"a", "gone"}
		if err := s.Request(time.Time{}, &session.Request{TypeURL: session.EndpointURL, Names: names, Subscribe: names}); err != nil {
			t.Fatal(err)
		}
		out, _ := s.Turn(time.Time{}, offer)
		if form == session.SotW {
			m := out[0].SotW()
			var empty endpointv3.ClusterLoadAssignment
			if err := m.GetResources()[1].UnmarshalTo(&empty); err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(&empty, &endpointv3.ClusterLoadAssignment{ClusterName: "gone"}) {
				t.Errorf("an absent name is %v", &empty)
			}
			if m.GetControlPlane().GetIdentifier() != "catenary-1" || m.GetVersionInfo() == "" || m.GetNonce() == "" ||
				m.GetTypeUrl() != session.EndpointURL || string(m.GetResources()[0].GetValue()) != "endpoint/a=7" {
				t.Errorf("%v", m)
			}
			continue
		}
		m := out[0].Delta()
		r := m.GetResources()[0]
		if m.GetControlPlane().GetIdentifier() != "catenary-1" || m.GetNonce() == "" || m.GetTypeUrl() != session.EndpointURL ||
			r.GetName() != "a" || r.GetVersion() != "7" || r.GetResource().GetTypeUrl() != session.EndpointURL ||
			fmt.Sprint(m.GetRemovedResources()) != "[gone]" {
			t.Errorf("%v", m)
		}
	}
}

// TestVersionIsOfWhatTheClientHolds: it depends on names and versions, not on the way there.
func TestVersionIsOfWhatTheClientHolds(t *testing.T) {
	version := func(script string) string {
		sc := newScript(t, session.SotW)
		sc.run(script)
		return sc.info["endpoint"]
	}
	at := version(`
		offer endpoint/a=1 endpoint/b=1
		ask endpoint a b
		> endpoint a=1 b=1`)
	later := version(`
		offer endpoint/a=3
		ask endpoint a b c
		> endpoint a=3 b= c=
		ack endpoint
		offer endpoint/b=1
		> endpoint b=1
		ask endpoint a b
		offer endpoint/a=1
		> endpoint a=1`)
	other := version(`
		offer endpoint/a=1 endpoint/b=2
		ask endpoint a b
		> endpoint a=1 b=2`)
	if at != later {
		t.Errorf("the same holdings have versions %s and %s", at, later)
	}
	if at == other {
		t.Error("different holdings have one version")
	}
}

// TestTurnCostsWhatChanged: one change among many names is one lookup.
func TestTurnCostsWhatChanged(t *testing.T) {
	for _, form := range []session.Form{session.SotW, session.Delta} {
		sc := newScript(t, form)
		ask := "ask endpoint"
		for i := range 2000 {
			sc.offer.put(fmt.Sprintf("endpoint/n%d=1", i))
			ask += fmt.Sprintf(" n%d", i)
		}
		sc.step(ask)
		sc.step("ack endpoint")
		sc.out, sc.offer.lookups = nil, 0
		sc.step("offer endpoint/n7=2")
		sc.step("ack endpoint")
		if len(sc.out) != 1 || sc.offer.lookups != 1 {
			t.Errorf("form %d: %d responses after %d lookups, want one of each", form, len(sc.out), sc.offer.lookups)
		}
	}
}
