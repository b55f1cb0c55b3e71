package chain_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/catenary-mesh/catenary/chain"
)

func TestIntentionsAreStoredInTheOrderOfTheirPrecedence(t *testing.T) {
	given := `{"Kind": "service-intentions", "Name": "%s", "Sources": [null,
		{"Name": "*", "Action": "deny"}, {"Name": "b", "Permissions": [null, {"Action": "allow", "HTTP": {"Methods": ["get"]}}], "LegacyID": "x"},
		{"Name": "a", "Action": "allow", "Precedence": 1}]}`
	for name, precedence := range map[string][2]int{"web": {9, 8}, "*": {6, 5}} {
		e, err := chain.UnmarshalEntry([]byte(fmt.Sprintf(given, name)))
		if err != nil {
			t.Fatal(err)
		}
		want := &chain.ServiceIntentions{Header: chain.Header{Name: name}, Sources: []*chain.SourceIntention{
			{
				Name: "b", Precedence: precedence[0], Type: chain.SourceConsul,
				Permissions: []*chain.IntentionPermission{{Action: chain.IntentionAllow, HTTP: &chain.IntentionHTTP{Methods: []string{"GET"}}}},
			},
			{Name: "a", Action: chain.IntentionAllow, Precedence: precedence[0], Type: chain.SourceConsul},
			{Name: "*", Action: chain.IntentionDeny, Precedence: precedence[1], Type: chain.SourceConsul},
		}}
		if diff := cmp.Diff(chain.Entry(want), e); diff != "" {
			t.Errorf("%s: want -, got +:\n%s", name, diff)
		}
		if diff := cmp.Diff(e, chain.Normalize(e)); diff != "" {
			t.Errorf("%s: once more changes it:\n%s", name, diff)
		}
	}
}

func TestTheMeshEntryHasItsName(t *testing.T) {
	e, err := chain.UnmarshalEntry([]byte(`{"Kind": "mesh", "TransparentProxy": {"MeshDestinationsOnly": true}, "CreateIndex": 1}`))
	if err != nil || e.Head().Name != chain.MeshName || !e.(*chain.Mesh).TransparentProxy.MeshDestinationsOnly {
		t.Fatalf("%+v, %v", e, err)
	}
	if got := chain.NewEntrySet(e).Entry(chain.KindMesh, "Mesh"); got != e {
		t.Errorf("it is not found: %v", got)
	}
}

func TestPermissionsNeedRequests(t *testing.T) {
	e := chain.Normalize(&chain.ServiceIntentions{Header: head("Web"), Sources: []*chain.SourceIntention{
		{Name: "a", Action: chain.IntentionAllow},
		{Name: "b", Permissions: []*chain.IntentionPermission{{Action: chain.IntentionAllow, HTTP: &chain.IntentionHTTP{PathPrefix: "/"}}}},
	}})
	http := &chain.ProxyDefaults{Header: chain.Header{Name: chain.GlobalName}, Config: map[string]any{"protocol": "HTTP"}}
	of := func(protocol string) chain.Entry {
		return &chain.ServiceDefaults{Header: chain.Header{Name: "web"}, Protocol: protocol}
	}
	for name, tt := range map[string]struct {
		entries []chain.Entry
		wrong   bool
	}{
		"nothing says the protocol": {nil, true},
		"by default":                {[]chain.Entry{http}, false},
		"the service is tcp":        {[]chain.Entry{http, of("tcp")}, true},
		"the service is grpc":       {[]chain.Entry{of("grpc")}, false},
	} {
		got := chain.ValidateAmong(e, chain.NewEntrySet(tt.entries...))
		switch {
		case !tt.wrong && len(got) > 0:
			t.Errorf("%s: %v", name, got)
		case tt.wrong && (len(got) != 1 || got[0].Code != chain.CodePermissionsProtocol || got[0].Field != "Sources[1].Permissions"):
			t.Errorf("%s: %v", name, got)
		}
	}
}
