package envoy

import (
	"testing"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/catenary-mesh/catenary/chain"
)

func TestHashPolicies(t *testing.T) {
	for name, c := range map[string]struct {
		policy chain.HashPolicy
		want   string
	}{
		"header":          {chain.HashPolicy{Field: "header", FieldValue: "x-user"}, `{"header": {"headerName": "x-user"}}`},
		"query parameter": {chain.HashPolicy{Field: "query_parameter", FieldValue: "q"}, `{"queryParameter": {"name": "q"}}`},
		"terminal": {
			chain.HashPolicy{SourceIP: true, Terminal: true},
			`{"connectionProperties": {"sourceIp": true}, "terminal": true}`,
		},
		"a cookie that is only read": {
			chain.HashPolicy{Field: "cookie", FieldValue: "c"},
			`{"cookie": {"name": "c"}}`,
		},
		"a cookie that is only read, with a path": {
			chain.HashPolicy{Field: "cookie", FieldValue: "c", CookieConfig: &chain.CookieConfig{Path: "/p"}},
			`{"cookie": {"name": "c", "path": "/p"}}`,
		},
		"a session cookie": {
			chain.HashPolicy{Field: "cookie", FieldValue: "c", CookieConfig: &chain.CookieConfig{Session: true}},
			`{"cookie": {"name": "c", "ttl": "0s"}}`,
		},
		"a cookie that lasts": {
			chain.HashPolicy{Field: "cookie", FieldValue: "c", CookieConfig: &chain.CookieConfig{TTL: 30 * time.Second}},
			`{"cookie": {"name": "c", "ttl": "30s"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			lb := &chain.LoadBalancer{Policy: "ring_hash", HashPolicies: []chain.HashPolicy{c.policy}}
			list := hashPolicies(lb)
			if len(list) != 1 {
				t.Fatalf("%d policies, want 1", len(list))
			}
			wants(t, list[0], &routev3.RouteAction_HashPolicy{}, c.want)
		})
	}
}

func TestOnlyHashingPoliciesHaveInputs(t *testing.T) {
	inputs := []chain.HashPolicy{{Field: "header", FieldValue: "x-user"}, {SourceIP: true}}
	for policy, want := range map[string]int{"": 0, "random": 0, "least_request": 0, "ring_hash": 2, "maglev": 2} {
		if got := hashPolicies(&chain.LoadBalancer{Policy: policy, HashPolicies: inputs}); len(got) != want {
			t.Errorf("%q has %d inputs, want %d", policy, len(got), want)
		}
	}
}

func TestRetries(t *testing.T) {
	for name, c := range map[string]struct {
		destination chain.RouteDestination
		want        string
	}{
		"only a number":           {chain.RouteDestination{NumRetries: 3}, `{"numRetries": 3}`},
		"on a connection failure": {chain.RouteDestination{RetryOnConnectFailure: true}, `{"retryOn": "connect-failure"}`},
		"on codes": {
			chain.RouteDestination{RetryOnStatusCodes: []uint32{409, 429}},
			`{"retryOn": "retriable-status-codes", "retriableStatusCodes": [409, 429]}`,
		},
		"on all": {
			chain.RouteDestination{
				NumRetries: 2, RetryOn: []string{"reset", "5xx"}, RetryOnConnectFailure: true, RetryOnStatusCodes: []uint32{409},
			},
			`{"retryOn": "reset,5xx,connect-failure,retriable-status-codes", "numRetries": 2, "retriableStatusCodes": [409]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			wants(t, retry(&c.destination), &routev3.RetryPolicy{}, c.want)
		})
	}
	if got := retry(&chain.RouteDestination{RequestTimeout: time.Second}); got != nil {
		t.Errorf("a destination without retries has %v", got)
	}
}

func TestTranslatingLeavesTheEntryAsItIs(t *testing.T) {
	on := make([]string, 1, 8)
	on[0] = "reset"
	d := chain.RouteDestination{RetryOn: on, RetryOnConnectFailure: true}
	retry(&d)
	if after := on[:2]; after[1] != "" {
		t.Errorf("the translation wrote %q behind the entry's list", after[1])
	}
}
