package chain_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/chain"
)

// TestUnmarshalEntry has entries as Consul 1.22.5 answers at /v1/config.
func TestUnmarshalEntry(t *testing.T) {
	tests := map[string]chain.Entry{
		`{"Kind": "proxy-defaults", "Name": "global", "Config": {"protocol": "http", "Interval": "3s", "n": 3},
		  "TransparentProxy": {}, "MeshGateway": {"Mode": "local"}, "Expose": {"Checks": true}, "Hash": 13626260281692226382}`: &chain.ProxyDefaults{
			Header: chain.Header{Name: "global"}, Config: map[string]any{"protocol": "http", "Interval": "3s", "n": 3.0},
			TransparentProxy: &chain.TransparentProxy{}, MeshGateway: chain.MeshGateway{Mode: "local"}, Expose: chain.Expose{Checks: true},
		},
		`{"Kind": "service-defaults", "Name": "web", "Protocol": "HTTP", "Meta": {"TTL": "3s"}, "UpstreamConfig": {"Defaults":
		  {"PassiveHealthCheck": {"Interval": "10s", "MaxFailures": 3, "BaseEjectionTime": "30s"}}}, "CreateIndex": 17, "ModifyIndex": 18}`: &chain.ServiceDefaults{
			Header: chain.Header{Name: "web", Meta: map[string]string{"TTL": "3s"}}, Protocol: "http",
			UpstreamConfig: &chain.UpstreamConfiguration{Defaults: &chain.UpstreamConfig{PassiveHealthCheck: &chain.PassiveHealthCheck{
				Interval: 10 * time.Second, MaxFailures: 3, BaseEjectionTime: ptr(30 * time.Second),
			}}},
		},
		`{"ConnectTimeout": "15s", "RequestTimeout": 7, "Kind": "service-resolver", "Name": "web", "Subsets": {"TTL": {"Filter": "3s"}},
		  "LoadBalancer": {"HashPolicies": [{"CookieConfig": {"TTL": 3600000000000}}, {"CookieConfig": {"TTL": "2h"}}]}, "Redirect": null}`: &chain.ServiceResolver{
			Header: chain.Header{Name: "web"}, ConnectTimeout: 15 * time.Second, RequestTimeout: 7,
			Subsets: map[string]chain.Subset{"TTL": {Filter: "3s"}},
			LoadBalancer: &chain.LoadBalancer{HashPolicies: []chain.HashPolicy{
				{CookieConfig: &chain.CookieConfig{TTL: time.Hour}}, {CookieConfig: &chain.CookieConfig{TTL: 2 * time.Hour}},
			}},
		},
		`{"Kind": "service-splitter", "Name": "web", "Splits": [{"Weight": 33.336, "RequestHeaders": {"Set": {"TTL": "1s"}}}]}`: &chain.ServiceSplitter{
			Header: chain.Header{Name: "web"},
			Splits: []chain.ServiceSplit{{Weight: 33.34, RequestHeaders: &chain.HeaderModifiers{Set: map[string]string{"TTL": "1s"}}}},
		},
		`{"Kind": "service-router", "Name": "web", "Routes": [{"Match": {"HTTP": {"Methods": ["get"]}},
		  "Destination": {"RequestTimeout": "3s", "idletimeout": "1m0s", "NumRetries": 2}}]}`: &chain.ServiceRouter{
			Header: chain.Header{Name: "web"},
			Routes: []chain.ServiceRoute{{
				Match:       &chain.RouteMatch{HTTP: &chain.HTTPMatch{Methods: []string{"GET"}}},
				Destination: &chain.RouteDestination{RequestTimeout: 3 * time.Second, IdleTimeout: time.Minute, NumRetries: 2},
			}},
		},
	}
	for text, want := range tests {
		if got, err := chain.UnmarshalEntry([]byte(text)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s\ngot  %+v, %v\nwant %+v", text, got, err, want)
		}
	}
}

func TestUnmarshalEntryNamesWhatItRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{"Name": "web"}`: `Kind is ""`,
		`{"Kind": "ingress-gateway", "Name": "web"}`: `Kind is "ingress-gateway"`,
		`{"Kind": "service-router"} {}`:              "more than one JSON value",
		`[]`:                                         "cannot unmarshal array",
		``:                                           "EOF",
		`{"Kind": "service-router", "Origin": "x"}`:                                       "Origin: there is no such field",
		`{"Kind": "service-router", "Header": {}}`:                                        "Header: there is no such field",
		`{"Kind": "service-splitter", "Splits": [{}, {"Wait":1}]}`:                        "Splits[1].Wait: there is no such field",
		`{"Kind": "service-router", "Routes": [{"Destination": {"NumRetrys": 1}}]}`:       "Routes[0].Destination.NumRetrys: there is no such field",
		`{"Kind": "service-resolver", "Subsets": {"v1": {"Filtre": ""}}}`:                 "Subsets.v1.Filtre: there is no such field",
		`{"Kind": "service-resolver", "ConnectTimeout": "soon"}`:                          `ConnectTimeout: duration "soon"`,
		`{"Kind": "service-resolver", "ConnectTimeout": true}`:                            "cannot unmarshal bool",
		`{"Kind": "service-resolver", "ConnectTimeout": {"x": "3s"}}`:                     "cannot unmarshal object",
		`{"Kind": "service-splitter", "Splits": {"Weight": 1}}`:                           "cannot unmarshal object",
		`{"Kind": "service-splitter", "Splits": [{"Weight": "100"}], "Meta": {"a": "b"}}`: "cannot unmarshal string",
	} {
		e, err := chain.UnmarshalEntry([]byte(text))
		if e != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot %+v, %v\nwant %s", text, e, err, want)
		}
	}
}

func TestEntrySetFromJSON(t *testing.T) {
	set := chain.NewEntrySet(&chain.ServiceRouter{Header: head("kept")})
	if err := json.Unmarshal([]byte(`[{"Kind": "service-resolver", "Name": "Web"}]`), set); err != nil {
		t.Fatal(err)
	}
	if set.Entry(chain.KindServiceResolver, "web") == nil || set.Entry(chain.KindServiceRouter, "kept") == nil {
		t.Error("an entry is missing")
	}
	err := json.Unmarshal([]byte(`[{"Kind": "service-resolver"}, {"Kind": "x"}]`), set)
	if err == nil || !strings.Contains(err.Error(), "entry 1: ") {
		t.Errorf("got %v", err)
	}
	if err := json.Unmarshal([]byte(`{}`), set); err == nil {
		t.Error("an object was read as a list")
	}
}

// FuzzUnmarshalEntry checks that what is read is written and read again the same.
func FuzzUnmarshalEntry(f *testing.F) {
	f.Add([]byte(`{"Kind":"service-router","Name":"web","Routes":[{"Destination":{"RequestTimeout":"3s"}}]}`))
	f.Add([]byte(`{"Kind":"service-resolver","Name":"web","ConnectTimeout":"5s","LoadBalancer":{"HashPolicies":[{"CookieConfig":{"TTL":"1h"}}]}}`))
	f.Add([]byte(`{"Kind":"service-splitter","Name":"web","Splits":[{"Weight":100,"RequestHeaders":{"Set":{"a":"b"}}}]}`))
	f.Add([]byte(`{"Kind":"service-defaults","Name":"web","UpstreamConfig":{"Overrides":[{"Name":"x"},null]},"Meta":{"a":"b"}}`))
	f.Add([]byte(`{"Kind":"proxy-defaults","Config":{"a":[{"b":1e30}]},"EnvoyExtensions":[{"Arguments":{"a":null}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := chain.UnmarshalEntry(data)
		if err != nil {
			if e != nil {
				t.Fatal("an entry beside an error")
			}
			return
		}
		chain.Validate(e)
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := json.Unmarshal(text, &fields); err != nil {
			t.Fatal(err)
		}
		fields["Kind"] = e.Kind()
		if text, err = json.Marshal(fields); err != nil {
			t.Fatal(err)
		}
		back, err := chain.UnmarshalEntry(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		second, _ := json.Marshal(back)
		if first, _ := json.Marshal(e); string(first) != string(second) {
			t.Fatalf("read\n%s\nthen\n%s", first, second)
		}
	})
}
