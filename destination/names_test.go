package destination

import (
	"cmp"
	"net/netip"
	"strings"
	"testing"
)

func names() Names { return Names{Datacenter: "dc1", Suffix: "svc.cluster.local"} }

func TestNamesAreReadInAllTheirForms(t *testing.T) {
	api := Name{Service: "api", Datacenter: "dc1", Port: 80}
	with := func(change func(*Name)) Name { n := api; change(&n); return n }
	v2 := with(func(n *Name) { n.Subset = "v2" })
	far := with(func(n *Name) { n.Datacenter = "dc2" })
	for path, want := range map[string]Name{
		"api.service.consul":                              api,
		"API.Service.Consul.":                             api,
		"api.service.consul:8080":                         with(func(n *Name) { n.Port = 8080 }),
		"api.service.dc2.consul":                          far,
		"api.service.dc2.dc.consul":                       far,
		"api.service.default.ns.consul":                   api,
		"api.service.default.ns.default.ap.dc2.dc.consul": far,
		"api.default.service.consul":                      api,
		"v2.api.service.consul":                           v2,
		"v2.api.default.service.dc1.consul":               v2,
		"api.virtual.consul":                              api,
		"api.virtual.default.ns.consul":                   api,
		"api.virtual.default.consul":                      api,
		"api.virtual.dc2.consul":                          far,
		"api.default.svc.cluster.local":                   api,
		"v2.api.default.svc.cluster.local:443":            with(func(n *Name) { n.Subset, n.Port = "v2", 443 }),
		"service.service.consul":                          with(func(n *Name) { n.Service = "service" }),
		"a_b-c.service.consul":                            with(func(n *Name) { n.Service = "a_b-c" }),
	} {
		if got, err := names().Parse(path); err != nil || got != want {
			t.Errorf("%s: got %+v, %v; want %+v", path, got, err, want)
		}
		if back, err := names().Parse(want.Authority()); err != nil || back != want {
			t.Errorf("%s is read as %+v, %v", want.Authority(), back, err)
		}
	}
}

func TestWhatIsNoNameIsRefused(t *testing.T) {
	for _, path := range []string{
		"", ".", "api", "api:80", "consul", "service.consul", "api.consul", "api.query.consul", "api.service", "api.service.com",
		"api.service.consul:", "api.service.consul:0", "api.service.consul:65536", "api.service.consul:http", "api.service.consul:+80",
		"api.service.consul:80:80", "a.b.c.service.consul", "api.service.a.b.consul", "api.service.other.ns.consul",
		"..service.consul", "a..service.consul", "a b.service.consul", "ä.service.consul", "a/b.service.consul", "\x00.service.consul",
		"10.0.0.1", "10.0.0.1:80", "[::1]:80", "::1", "api.shop.svc.cluster.local", "api.svc.cluster.local", "svc.cluster.local",
		strings.Repeat("a", 129) + ".service.consul", strings.Repeat("a.", 300) + "service.consul",
	} {
		if got, err := names().Parse(path); err == nil {
			t.Errorf("%q is read as %+v", path, got)
		}
	}
	if _, err := (Names{Datacenter: "dc1"}).Parse("api.default.svc.cluster.local"); err == nil {
		t.Error("a name with a suffix is read where none is configured")
	}
}

func TestProfilesAreAskedForByAddressToo(t *testing.T) {
	for path, want := range map[string]string{
		"10.0.0.1":               "10.0.0.1:80",
		"10.0.0.1:8080":          "10.0.0.1:8080",
		"[2001:db8::1]:443":      "[2001:db8::1]:443",
		"2001:db8::1":            "[2001:db8::1]:80",
		"[::ffff:10.0.0.1]:8080": "10.0.0.1:8080",
		"240.0.0.1:80":           "240.0.0.1:80",
	} {
		_, got, err := names().ParseTarget(path)
		if err != nil || got != netip.MustParseAddrPort(want) {
			t.Errorf("%s: got %v, %v; want %s", path, got, err, want)
		}
	}
	if name, addr, err := names().ParseTarget("api.service.consul"); err != nil || addr.IsValid() || name.Service != "api" {
		t.Errorf("got %+v, %v, %v", name, addr, err)
	}
	if _, _, err := names().ParseTarget("[fe80::1%eth0]:80"); err == nil {
		t.Error("an address with a zone is taken")
	}
}

// TestWhatDNSCannotHaveIsSpelled has names that Consul lets services have, and a splitter send to: each has a form that
// a proxy takes for a name and that is understood.
func TestWhatDNSCannotHaveIsSpelled(t *testing.T) {
	for _, n := range []Name{
		{Service: "api.v2"},
		{Service: "my service"},
		{Service: "Käse"},
		{Service: "-api-"},
		{Service: strings.Repeat("a", 64)},
		{Service: strings.Repeat("ä", 45)},
		{Service: "default"},
		{Service: "default", Subset: "v2"},
		{Service: "api", Subset: "v2.1"},
		{Service: "service", Subset: "virtual"},
		{Service: "api", Datacenter: "service"},
		{Service: "api", Datacenter: "default"},
		{Service: "hex--61"},
		{Service: "hexn--61"},
		{Service: "hexagon", Subset: "a.b"},
		{Service: "api", Peer: "cloud"},
		{Service: "api.v2", Subset: "v2", Peer: "Cloud.1"},
		{Service: "none", Peer: "none"},
	} {
		n.Datacenter = cmp.Or(n.Datacenter, "dc1")
		n.Port = 80
		if !n.expressible() || !isDNS(n.Host()) {
			t.Errorf("%+v has no form: %s", n, n.Host())
		}
		back, err := Names{Datacenter: "dc1"}.Parse(n.Authority())
		if lower := strings.ToLower(n.Service); err != nil || back.Service != lower || back.Subset != n.Subset || !strings.EqualFold(back.Peer, n.Peer) {
			t.Errorf("%+v is %s, and that is read as %+v, %v", n, n.Host(), back, err)
		}
	}
	for _, n := range []Name{
		{Service: strings.Repeat("é", 200)}, {Service: "a/b"}, {Service: "../agent"}, {Service: subsetName}, {Service: "a?b"}, {Service: "a\xff"},
	} {
		if n.Datacenter = "dc1"; n.expressible() {
			t.Errorf("%+v is said to be %s", n, n.Host())
		}
	}
	for path, want := range map[string]string{
		"hex--zz.service.consul": "hex--zz", "hex--.service.consul": "hex--", "hexn--61.service.consul": "hexn--61", "hex--2f.service.consul": "hex--2f",
		"hex--00.service.consul": "hex--00", "hexn--61.hex--62.service.consul": "ab", "hex--41.service.consul": "hex--41",
	} {
		if got, err := names().Parse(path); err != nil || got.Service != want {
			t.Errorf("%s is read as %+v, %v", path, got, err)
		}
	}
	if _, _, err := names().ParseTarget("api.service.cloud.peer.consul"); err == nil {
		t.Error("a profile is made of what nothing is known about")
	}
}

func TestContextTokens(t *testing.T) {
	for token, want := range map[string]Origin{
		"": {}, "garbage": {}, "{": {}, "[]": {}, `{"ns":1}`: {}, `{"node":1}`: {}, `"x"`: {}, "null": {}, "ns:shop": {},
		`{"ns":"shop","nodeName":"n1","pod":"p"}`: {Node: "n1"},
		`{"node":"n1"}`:                                         {Node: "n1"},
		`{"zone":"a","region":"r"}`:                             {Zone: "a", Region: "r"},
		`{"locality":{"zone":"a","region":"r"}}`:                {Zone: "a", Region: "r"},
		`{"node":"` + strings.Repeat("x", 300) + `"}`:           {},
		`{"node":"n1","x":"` + strings.Repeat("x", 5000) + `"}`: {},
		"ns:\xff": {},
	} {
		if got := ParseToken(token); got != want {
			t.Errorf("%.40q: got %+v, want %+v", token, got, want)
		}
	}
}

func FuzzPath(f *testing.F) {
	for _, s := range []string{"api.service.consul", "v2.api.default.service.dc1.consul:80", "[::1]:80", "a.default.svc.cluster.local", "api.virtual.x.dc.consul", "hexn--61.hex--2e.service.x.peer.consul"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		name, err := names().Parse(path)
		if err != nil {
			return
		}
		if _, _, err := names().ParseTarget(path); err != nil && name.Peer == "" {
			t.Errorf("%q has endpoints and no profile: %v", path, err)
		}
		back, err := names().Parse(name.Authority())
		if name.expressible() && (err != nil || back != name) {
			t.Errorf("%q is %+v, and that is read as %+v, %v", path, name, back, err)
		}
	})
}

func FuzzToken(f *testing.F) {
	for _, s := range []string{"ns:x", `{"nodeName":"n"}`, `{"locality":{"zone":"z"}}`, "{"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, token string) {
		o := ParseToken(token)
		ep := Endpoint{Addr: netip.MustParseAddrPort("10.0.0.1:80"), Node: "n", Zone: "z"}
		s := NewSet(Labels{Service: "api"}, []Endpoint{ep})
		if (Encoder{Origin: o}).For(s).Encode(s, nil).addrs[0] == nil {
			t.Error("it cannot be encoded")
		}
	})
}
