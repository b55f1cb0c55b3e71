package bootstrap

import (
	"strings"
	"testing"
)

func TestParseUpstream(t *testing.T) {
	for _, tc := range []struct {
		text string
		want Upstream
	}{
		{"api:9191", Upstream{Service: "api", BindAddress: "127.0.0.1", BindPort: 9191}},
		{"db:127.0.0.2:5432", Upstream{Service: "db", BindAddress: "127.0.0.2", BindPort: 5432}},
		{"stock@dc2:9292", Upstream{Service: "stock", Datacenter: "dc2", BindAddress: "127.0.0.1", BindPort: 9292}},
		{"stock@dc2:0.0.0.0:1", Upstream{Service: "stock", Datacenter: "dc2", BindAddress: "0.0.0.0", BindPort: 1}},
		{"web:[::1]:65535", Upstream{Service: "web", BindAddress: "::1", BindPort: 65535}},
		{"Web-2.blue_x:80", Upstream{Service: "Web-2.blue_x", BindAddress: "127.0.0.1", BindPort: 80}},
	} {
		t.Run(tc.text, func(t *testing.T) {
			got, err := ParseUpstream(tc.text)
			if err != nil || got != tc.want {
				t.Errorf("got %+v, %v; want %+v", got, err, tc.want)
			}
		})
	}
}

func TestParseUpstreamSaysWhatIsWrongAndWhatToWrite(t *testing.T) {
	for text, reason := range map[string]string{
		"":                  "there is no port",
		"api":               "there is no port",
		"api:":              `the port "" is not a number`,
		"api:http":          `the port "http" is not a number`,
		"api:0":             "the port 0 is not in 1 to 65535",
		"api:65536":         "the port 65536 is not in 1 to 65535",
		"api:-1":            "the port -1 is not in 1 to 65535",
		":9191":             "the service has no name",
		"@dc2:9191":         "the service has no name",
		"stock@:9292":       "there is no datacenter after the @",
		"stock@a@b:9292":    `the datacenter "a@b" has the character '@'`,
		"a b:9191":          `the service "a b" has the character ' '`,
		"a/b:9191":          `the service "a/b" has the character '/'`,
		"db::5432":          `the address "" is not an IP address`,
		"db:localhost:5432": `the address "localhost" is not an IP address`,
		"db:::1:5432":       `"::1:5432" is not ADDRESS:PORT; an IPv6 address needs brackets`,
		"db:[::1:5432":      `"[::1:5432" is not ADDRESS:PORT`,
	} {
		t.Run(text, func(t *testing.T) {
			_, err := ParseUpstream(text)
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range []string{reason, UpstreamForm, "stock@dc2:9292"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error lacks %q: %v", part, err)
				}
			}
		})
	}
}

// What is read must be writable again and then mean the same.
func FuzzParseUpstream(f *testing.F) {
	for _, text := range []string{"api:9191", "db:127.0.0.1:5432", "stock@dc2:9292", "web:[::1]:8080", "a@b@c:1", "::", "x:[::1%eth0]:1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := ParseUpstream(text)
		if err != nil {
			return
		}
		if err := (Metadata{Service: "web", Upstreams: []Upstream{u}}).Validate(); err != nil {
			t.Errorf("%q was read as %+v, which is not valid: %v", text, u, err)
		}
		if _, err := Envoy(EnvoyConfig{Service: "web", Upstreams: []Upstream{u}}); err != nil {
			t.Errorf("%q was read as %+v, which has no bootstrap: %v", text, u, err)
		}
	})
}
