package hds

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func meta(pairs ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

func TestMeta(t *testing.T) {
	http := DefaultProbe(HTTP)
	with := func(p Probe, change func(*Probe)) Probe { change(&p); return p }
	for name, c := range map[string]struct {
		service, instance map[string]string
		probe             Probe
		policy            Policy
		refused           string
	}{
		"nothing":               {policy: And},
		"only a policy":         {service: meta("hds-policy", "hds"), policy: Only},
		"other keys":            {service: meta("version", "2"), policy: And},
		"http":                  {service: meta("hds-protocol", "http"), probe: http, policy: And},
		"a path is http's":      {service: meta("hds-path", "/up"), probe: with(http, func(p *Probe) { p.Path = "/up" }), policy: And},
		"else it is tcp":        {service: meta("hds-interval", "5s"), probe: with(DefaultProbe(TCP), func(p *Probe) { p.Interval = 5 * time.Second }), policy: And},
		"the instance's wins":   {service: meta("hds-protocol", "http", "hds-path", "/a", "hds-policy", "hds"), instance: meta("hds-path", "/b", "hds-policy", "consul"), probe: with(http, func(p *Probe) { p.Path = "/b" }), policy: Consul},
		"the instance's beside": {service: meta("hds-protocol", "http"), instance: meta("hds-port", "81"), probe: with(http, func(p *Probe) { p.Port = 81 }), policy: And},
		"everything": {
			service: meta("hds-protocol", "http", "hds-path", "/up?x=1", "hds-host", "api.example:80", "hds-port", "81", "hds-interval", "500ms", "hds-timeout", "2s",
				"hds-healthy-threshold", "3", "hds-unhealthy-threshold", "4", "hds-expected-statuses", "404, 200-299", "hds-tls", "true", "hds-policy", "and"),
			probe: Probe{HTTP, "/up?x=1", "api.example:80", 81, 500 * time.Millisecond, 2 * time.Second, 3, 4, "200-299,404", true}, policy: And,
		},
		"grpc":                {service: meta("hds-protocol", "grpc", "hds-path", "a.b.C"), probe: with(DefaultProbe(GRPC), func(p *Probe) { p.Path = "a.b.C" }), policy: And},
		"redis":               {service: meta("hds-protocol", "redis"), probe: DefaultProbe(Redis), policy: And},
		"unknown protocol":    {service: meta("hds-protocol", "thrift"), refused: `the protocol is "thrift"`},
		"unknown policy":      {service: meta("hds-policy", "or"), refused: `hds-policy is "or"`},
		"unknown key":         {service: meta("hds-pth", "/up"), refused: `"hds-pth" is not a key`},
		"no duration":         {service: meta("hds-interval", "5"), refused: `hds-interval: "5" is not a duration`},
		"too often":           {service: meta("hds-interval", "1ms"), refused: "the interval is 1ms"},
		"negative":            {service: meta("hds-timeout", "-1s"), refused: "the timeout is -1s"},
		"no number":           {service: meta("hds-port", "x"), refused: `hds-port: "x"`},
		"port 0":              {service: meta("hds-port", "0"), refused: `hds-port: "0"`},
		"threshold":           {service: meta("hds-healthy-threshold", "101"), refused: "a threshold is 101"},
		"statuses":            {service: meta("hds-expected-statuses", "299-200"), refused: "hds-expected-statuses"},
		"neither":             {service: meta("hds-tls", "maybe"), refused: `hds-tls: "maybe"`},
		"a path of tcp":       {service: meta("hds-protocol", "tcp", "hds-path", "/"), refused: "a tcp probe has no path"},
		"a host of tcp":       {service: meta("hds-protocol", "tcp", "hds-host", "a"), refused: "a tcp probe has no host"},
		"a header in a path":  {service: meta("hds-path", "/\r\nX: y"), refused: "the path holds"},
		"a header in a host":  {service: meta("hds-protocol", "http", "hds-host", "a\r\nX: y"), refused: "the host is"},
		"broken in instance":  {service: meta("hds-protocol", "http"), instance: meta("hds-path", "up"), refused: "begins with /"},
		"mended by instance":  {service: meta("hds-protocol", "htp"), instance: meta("hds-protocol", "http"), probe: http, policy: And},
		"statuses are http's": {service: meta("hds-expected-statuses", "204"), probe: with(http, func(p *Probe) { p.Statuses = "204" }), policy: And},
	} {
		t.Run(name, func(t *testing.T) {
			got := Choose(Question{ServiceMeta: c.service, InstanceMeta: c.instance})
			if c.refused != "" {
				if !strings.Contains(got.Refused, c.refused) || got.Found {
					t.Errorf("got %+v, and it should be refused with %q", got, c.refused)
				}
				return
			}
			if got.Refused != "" || got.Probe != c.probe || got.Policy != c.policy || got.Found != (c.probe != Probe{}) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestWhatIsProbedIsChosenInOrder(t *testing.T) {
	definitions := []Definition{{CheckID: "agent"}, {CheckID: "up", HTTP: "http://10.0.0.1:8080/health", Interval: 10 * time.Second}}
	q := Question{ServiceMeta: meta("hds-protocol", "tcp"), Address: "10.0.0.1", Definitions: definitions, DefaultTCP: true}
	if got := Choose(q); got.From != "meta" || got.Probe != DefaultProbe(TCP) {
		t.Errorf("with meta: %+v", got)
	}
	q.ServiceMeta = meta("hds-policy", "hds")
	got := Choose(q)
	if got.From != `check "up"` || got.Probe.Path != "/health" || got.Probe.Port != 8080 || got.Policy != Only || len(got.Skipped) != 1 || !strings.Contains(got.Skipped[0], "agent") {
		t.Errorf("with a check: %+v", got)
	}
	q.Definitions = definitions[:1]
	if got := Choose(q); got.From != "default" || len(got.Skipped) != 1 {
		t.Errorf("with an empty definition: %+v", got)
	}
	q.DefaultTCP = false
	if got := Choose(q); got.Found || got.Refused != "" || got.Policy != Only || len(got.Skipped) != 2 || !strings.Contains(got.Skipped[1], "hds-policy is given") {
		t.Errorf("with a policy alone: %+v", got)
	}
}

func TestTheMeshIsProbedByTCPOnly(t *testing.T) {
	for protocol, fine := range map[string]bool{"tcp": true, "http": false, "grpc": false, "redis": false} {
		got := Choose(Question{ServiceMeta: meta("hds-protocol", protocol), Mesh: true})
		if got.Found != fine || (got.Refused == "") != fine {
			t.Errorf("%s: %+v", protocol, got)
		}
	}
	if got := Choose(Question{ServiceMeta: meta("hds-tls", "true"), Mesh: true}); got.Found {
		t.Errorf("tls: %+v", got)
	}
	if got := Choose(Question{DefaultTCP: true, Mesh: true}); !got.Found {
		t.Errorf("the default: %+v", got)
	}
}

func TestDefinitions(t *testing.T) {
	for name, c := range map[string]struct {
		d    Definition
		want string
	}{
		"http":               {Definition{HTTP: "http://localhost:80/a?b"}, "http /a?b localhost:80 80 200-299 false"},
		"https":              {Definition{HTTP: "https://10.0.0.1/"}, "http /  443 200-299 true"},
		"a name":             {Definition{HTTP: "http://api.example/"}, "http / api.example 80 200-299 false"},
		"tcp":                {Definition{TCP: "127.0.0.1:6379"}, "tcp   6379  false"},
		"grpc":               {Definition{GRPC: "10.0.0.1:9090/a.B", TLS: true}, "grpc a.B  9090  true"},
		"tls":                {Definition{TCP: "[::1]:443", TLS: true}, "tcp   443  true"},
		"another machine":    {Definition{TCP: "10.0.0.2:80"}, "it checks 10.0.0.2"},
		"a post":             {Definition{HTTP: "http://10.0.0.1/", Method: "POST"}, "its method"},
		"headers":            {Definition{HTTP: "http://10.0.0.1/", Header: map[string][]string{"a": {"b"}}}, "it sends headers"},
		"a password":         {Definition{HTTP: "http://u:p@10.0.0.1/"}, "it sends headers, a body or a password"},
		"nothing":            {Definition{}, "its definition is empty"},
		"no port":            {Definition{TCP: "10.0.0.1"}, "is not host:port"},
		"no URL":             {Definition{HTTP: "::"}, "its URL cannot be read"},
		"too often":          {Definition{TCP: "10.0.0.1:80", Interval: time.Millisecond}, "the interval is"},
		"longer than a host": {Definition{HTTP: "http://" + strings.Repeat("h", 300) + "/"}, "the host is longer"},
	} {
		probe, reason := c.d.probe("10.0.0.1")
		got := reason
		if reason == "" {
			got = fmt.Sprint(probe.Protocol, " ", probe.Path, " ", probe.Host, " ", probe.Port, " ", probe.Statuses, " ", probe.TLS)
		}
		if got != c.want && (reason == "" || !strings.Contains(reason, c.want)) {
			t.Errorf("%s: %q, and not %q", name, got, c.want)
		}
	}
}

func FuzzMeta(f *testing.F) {
	f.Add("hds-protocol", "http", "hds-path", "/up", "hds-port", "81")
	f.Add("hds-interval", "500ms", "hds-timeout", "2s", "hds-tls", "true")
	f.Add("hds-healthy-threshold", "3", "hds-unhealthy-threshold", "4", "hds-expected-statuses", "404,200-299,250-300")
	f.Add("hds-policy", "hds", "hds-host", "a:1", "hds-protocol", "grpc")
	f.Fuzz(func(t *testing.T, k1, v1, k2, v2, k3, v3 string) {
		c := Choose(Question{ServiceMeta: meta(k1, v1, k2, v2), InstanceMeta: meta(k3, v3)})
		if c.Found == (c.Refused != "") && c.Found {
			t.Fatalf("a probe is both found and refused: %+v", c)
		}
		if text := c.Probe.Problem(); c.Found && text != "" {
			t.Fatalf("%+v is found, and is a problem: %s", c.Probe, text)
		}
		if c.Found {
			d := duty(0, "", "")
			d.Probe = c.Probe
			spec, refused := Compose(all(), time.Second, []Duty{d})
			if len(refused) > 0 {
				t.Fatalf("%+v is found and refused: %v", c.Probe, refused)
			}
			wellFormed(t, spec)
		}
	})
}
