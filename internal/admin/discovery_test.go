package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/admin"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/snapshot"
)

// entries commits all config entries that there are.
func entries(store *facts.Store, list ...chain.Entry) {
	store.Commit(func(tx *facts.Tx) {
		byKind := map[chain.Kind][]chain.Entry{}
		for _, e := range list {
			byKind[e.Kind()] = append(byKind[e.Kind()], e)
		}
		for _, kind := range chain.Kinds() {
			tx.Entries(kind, byKind[kind], facts.Reading{Confirmed: true})
		}
	})
}

func timeout(d time.Duration) *chain.ServiceResolver {
	return &chain.ServiceResolver{Header: chain.Header{Name: "web"}, ConnectTimeout: d}
}

// discovering is a server whose entries are those of the store.
func discovering(store *facts.Store) *admin.Server {
	cfg := config()
	cfg.Discovery = admin.NewDiscovery(store, func() (admin.Place, string) {
		return admin.Place{Datacenter: "dc1", TrustDomain: "d.consul"}, ""
	})
	return admin.New(cfg)
}

type said struct {
	status int
	body   string
	header http.Header
}

func (s said) index() string { return s.header.Get("X-Consul-Index") }

func ask(ctx context.Context, h http.Handler, method, path, body string) said {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, path, strings.NewReader(body)).WithContext(ctx)
	h.ServeHTTP(w, r)
	return said{w.Code, w.Body.String(), w.Header()}
}

func TestDiscoveryChainAnswersAsConsul(t *testing.T) {
	store := facts.New()
	entries(store, timeout(3*time.Second), &chain.ServiceSplitter{
		Header: chain.Header{Name: "bad"}, Splits: []chain.ServiceSplit{{Weight: 100}},
	})
	s := discovering(store)
	for _, tt := range []struct {
		name, method, path, body string
		status                   int
		want                     string
	}{
		{"chain", "GET", "web", "", 200, `{"Chain":{"ServiceName":"web","Namespace":"default","Partition":"default","Datacenter":"dc1"`},
		{"timeout", "GET", "web", "", 200, `"ConnectTimeout":"3s"`},
		{"unknown-service", "GET", "nobody", "", 200, `"Default":true`},
		{"slash", "GET", "a/b", "", 200, `"ServiceName":"a/b"`},
		{"escaped-slash", "GET", "a%2Fb", "", 200, `"ServiceName":"a/b"`},
		{"compile-dc", "GET", "web?compile-dc=DC9", "", 200, `"SNI":"web.default.DC9.internal.d.consul"`},
		{"empty-parameters", "GET", "web?compile-dc=&ns=&partition=&index=&wait=&dc=", "", 200, `"Datacenter":"dc1"`},
		{"own-dc", "GET", "web?dc=dc1&stale&cached", "", 200, `"Chain"`},
		{"other-dc", "GET", "web?dc=dc2", "", 500, "No path to datacenter"},
		{"pretty", "GET", "web?pretty", "", 200, "{\n    \"Chain\": {\n        \"ServiceName\": \"web\","},
		{"escaped", "GET", "a%3Cb", "", 200, `"ServiceName":"a\u003cb"`},
		{"does-not-compile", "GET", "bad", "", 500, `failed to compile discovery chain: discovery chain "bad" uses a protocol "tcp"`},
		{"no-name", "GET", "", "", 400, "Missing chain name"},
		{"namespace", "GET", "web?ns=default", "", 400, `Invalid query parameter: "ns"`},
		{"partition", "GET", "web?partition=default", "", 400, `Invalid query parameter: "partition"`},
		{"bad-index", "GET", "web?index=-1", "", 400, "Invalid index"},
		{"bad-wait", "GET", "web?wait=x", "", 400, "Invalid wait time"},
		{"two-modes", "GET", "web?stale&consistent", "", 400, "conflicting"},
		{"put", "PUT", "web", "", 405, "method PUT not allowed"},
		{"head", "HEAD", "web", "", 405, ""},
		{"delete", "DELETE", "web", "", 405, "method DELETE not allowed"},
		{"options", "OPTIONS", "web", "", 200, ""},
		{"empty-body", "POST", "web", "", 400, "Request decoding failed: EOF"},
		{"no-json", "POST", "web", "x", 400, "Request decoding failed: invalid character 'x'"},
		{"list", "POST", "web", "[]", 400, "Request decoding failed: json: cannot unmarshal array"},
		{"no-overrides", "POST", "web", "{}", 200, `"ConnectTimeout":"3s"`},
		{"null", "POST", "web", "null", 200, `"ConnectTimeout":"3s"`},
		{"bad-mode", "POST", "web", `{"OverrideMeshGateway":{"Mode":"LOCAL"}}`, 400, "Invalid OverrideMeshGateway.Mode parameter"},
		{"mode-of-a-number", "POST", "web", `{"OverrideMeshGateway":{"Mode":5}}`, 400, "Invalid OverrideMeshGateway.Mode parameter"},
		{"mode-is-no-object", "POST", "web", `{"OverrideMeshGateway":"local"}`, 400, "Request decoding failed: OverrideMeshGateway"},
		{"mode-of-an-object", "POST", "web", `{"OverrideMeshGateway":{"Mode":{}}}`, 400, "Request decoding failed: OverrideMeshGateway.Mode"},
		{"bad-duration", "POST", "web", `{"OverrideConnectTimeout":"xx"}`, 400, "Request decoding failed: OverrideConnectTimeout: time: invalid duration"},
		{"duration-of-an-object", "POST", "web", `{"OverrideConnectTimeout":{}}`, 400, "Request decoding failed: OverrideConnectTimeout"},
		{"protocol-of-an-object", "POST", "web", `{"OverrideProtocol":{}}`, 400, "Request decoding failed: OverrideProtocol"},
		{"protocol-of-two", "POST", "web", `{"OverrideProtocol":["a","b"]}`, 400, "Request decoding failed: OverrideProtocol"},
		{"all", "POST", "web", `{"OverrideMeshGateway":{"Mode":"local"},"OverrideProtocol":"http","OverrideConnectTimeout":"7s"}`, 200, `"CustomizationHash":"5379effb"`},
		{"snake-case-and-unknown-keys", "POST", "web", `{"override_mesh_gateway":{"mode":"local"},"override_protocol":"http","override_connect_timeout":7000000000,"x":1}`, 200, `"CustomizationHash":"5379effb"`},
		{"camel-case-first", "POST", "web", `{"override_protocol":"http","OVERRIDEPROTOCOL":"grpc"}`, 200, `"Protocol":"grpc"`},
		{"weak-types", "POST", "web", `{"OverrideProtocol":[7.5],"OverrideConnectTimeout":true,"OverrideMeshGateway":[{"Mode":["none"]}]}`, 200, `"Protocol":"7.5"`},
		{"negative-timeout", "POST", "web", `{"OverrideConnectTimeout":"-3s","OverrideProtocol":true}`, 200, `"ConnectTimeout":"3s"`},
		{"nulls", "POST", "web", `{"OverrideProtocol":null,"OverrideConnectTimeout":null,"OverrideMeshGateway":null}`, 200, `"ConnectTimeout":"3s"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ask(t.Context(), s, tt.method, "/v1/discovery-chain/"+tt.path, tt.body)
			if got.status != tt.status || !strings.Contains(got.body, tt.want) {
				t.Errorf("%d %s\nwant %d %s", got.status, got.body, tt.status, tt.want)
			}
			if tt.status == 405 && got.header.Get("Allow") != "OPTIONS,GET,POST" {
				t.Errorf("allowed: %q", got.header.Get("Allow"))
			}
			if tt.status == 200 && tt.method != "OPTIONS" &&
				(got.index() == "" || got.index() == "0" || got.header.Get("X-Consul-KnownLeader") != "true" || got.header.Get("X-Consul-LastContact") != "0") {
				t.Errorf("headers %v", got.header)
			}
		})
	}
}

func TestWhatIsNotKnownIsNotAnswered(t *testing.T) {
	s := discovering(facts.New())
	for _, path := range []string{"/v1/discovery-chain/web", "/v1/discovery-chain/web?index=1", "/api/v1/explanations/web"} {
		got := ask(t.Context(), s, "GET", path, "")
		if got.status != 503 || !strings.Contains(got.body, "not read yet") || got.index() != "" {
			t.Errorf("%s without entries: %+v", path, got)
		}
	}
	if got := ask(t.Context(), admin.New(config()), "GET", "/v1/discovery-chain/web", ""); got.status != 503 || !strings.Contains(got.body, "not yet") {
		t.Errorf("before the place is known: %+v", got)
	}
}

func TestExplanationsAreAnswered(t *testing.T) {
	store := facts.New()
	entries(store, timeout(3*time.Second))
	s := discovering(store)
	got := ask(t.Context(), s, "POST", "/api/v1/explanations/web", `{"OverrideConnectTimeout":"7s"}`)
	if got.status != 200 || !strings.Contains(got.body, `"What":"connect timeout 7s","From":"override"`) {
		t.Errorf("%+v", got)
	}
	if got := ask(t.Context(), s, "DELETE", "/api/v1/explanations/web", ""); got.status != 405 {
		t.Errorf("%+v", got)
	}
}

func TestTheIndexChangesExactlyWithTheContent(t *testing.T) {
	store := facts.New()
	entries(store, timeout(time.Second))
	s := discovering(store)
	index := func(path string) string { return ask(t.Context(), s, "GET", "/v1/discovery-chain/"+path, "").index() }
	first := index("web")
	entries(store, timeout(time.Second), &chain.ServiceResolver{Header: chain.Header{Name: "other"}, RequestTimeout: 1})
	if got := index("web"); got != first {
		t.Errorf("an entry that does not count changed the index from %s to %s", first, got)
	}
	if got := index("web?compile-dc=dc2"); got == first {
		t.Errorf("two chains have the index %s", got)
	}
	entries(store, timeout(2*time.Second))
	second := index("web")
	a, _ := strconv.ParseUint(first, 10, 64)
	if b, _ := strconv.ParseUint(second, 10, 64); b <= a {
		t.Errorf("the content changed, and the index went from %s to %s", first, second)
	}
	if again := index("web"); again != second {
		t.Errorf("%s became %s for nothing", second, again)
	}
}

func TestABlockingQueryWaitsForTheContentToChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := facts.New()
		entries(store, timeout(time.Second))
		s := discovering(store)
		first := ask(t.Context(), s, "GET", "/v1/discovery-chain/web", "").index()
		if old := ask(t.Context(), s, "GET", "/v1/discovery-chain/web?index=7", ""); old.index() != first {
			t.Errorf("another index waits: %+v", old)
		}
		answers := make(chan said, 1)
		begin := time.Now()
		go func() { answers <- ask(t.Context(), s, "GET", "/v1/discovery-chain/web?index="+first, "") }()
		synctest.Wait()
		for _, list := range [][]chain.Entry{
			{timeout(time.Second), &chain.ServiceSplitter{Header: chain.Header{Name: "other"}}},
			{&chain.ServiceResolver{Header: chain.Header{Name: "WEB", ModifyIndex: 9}, ConnectTimeout: time.Second}},
		} {
			entries(store, list...)
			synctest.Wait()
			if len(answers) > 0 {
				t.Fatalf("woken by a change without effect: %+v", <-answers)
			}
		}
		changed := timeout(2 * time.Second)
		changed.ModifyIndex = 10
		entries(store, changed)
		got := <-answers
		if got.status != 200 || got.index() == first || !strings.Contains(got.body, `"2s"`) || time.Since(begin) != 0 {
			t.Errorf("%+v after %s", got, time.Since(begin))
		}
	})
}

func TestHowLongAQueryWaits(t *testing.T) {
	for _, tt := range []struct {
		wait string
		want time.Duration
	}{{"", 5 * time.Minute}, {"&wait=3s", 3 * time.Second}, {"&wait=2h", 10 * time.Minute}, {"&wait=0s", 5 * time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			store := facts.New()
			entries(store)
			s := discovering(store)
			index := ask(t.Context(), s, "GET", "/v1/discovery-chain/web", "").index()
			begin := time.Now()
			got := ask(t.Context(), s, "GET", "/v1/discovery-chain/web?index="+index+tt.wait, "")
			if d := time.Since(begin); d != tt.want || got.status != 200 || got.index() != index {
				t.Errorf("%q: %+v after %s", tt.wait, got, d)
			}
		})
	}
}

func TestAQueryEndsWithItsReaderAndWithWhatDoesNotCompile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := facts.New()
		entries(store)
		s := discovering(store)
		path := "/v1/discovery-chain/web?index=" + ask(t.Context(), s, "GET", "/v1/discovery-chain/web", "").index()
		ctx, leave := context.WithCancel(t.Context())
		answers := make(chan said, 2)
		go func() { answers <- ask(ctx, s, "GET", path, "") }()
		synctest.Wait()
		leave()
		<-answers
		go func() { answers <- ask(t.Context(), s, "GET", path, "") }()
		synctest.Wait()
		entries(store, &chain.ServiceSplitter{Header: chain.Header{Name: "web"}, Splits: []chain.ServiceSplit{{Weight: 100}}})
		if got := <-answers; got.status != 500 || !strings.HasPrefix(got.body, "failed to compile discovery chain: ") {
			t.Errorf("%+v", got)
		}
		entries(store)
		if again := ask(t.Context(), s, "GET", "/v1/discovery-chain/web", ""); !strings.HasSuffix(path, again.index()) {
			t.Errorf("the same content as before has the index %s, not that of %s", again.index(), path)
		}
	})
}

func TestSoManyQueriesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := facts.New()
		entries(store)
		s := discovering(store)
		path := "/v1/discovery-chain/web?index=" + ask(t.Context(), s, "GET", "/v1/discovery-chain/web", "").index()
		ctx, end := context.WithCancel(t.Context())
		const most = 128
		answers := make(chan said, most)
		for range most {
			go func() { answers <- ask(ctx, s, "GET", path, "") }()
		}
		synctest.Wait()
		if got := ask(t.Context(), s, "GET", path, ""); got.status != 429 {
			t.Errorf("one more: %+v", got)
		}
		if got := ask(t.Context(), s, "GET", "/v1/discovery-chain/web", ""); got.status != 200 {
			t.Errorf("one that does not wait: %+v", got)
		}
		end()
		for range most {
			<-answers
		}
		if got := ask(t.Context(), s, "GET", path+"&wait=1ms", ""); got.status != 200 {
			t.Errorf("after they left: %+v", got)
		}
	})
}

// pipes is a listener within the process, so that its connections follow the test's clock.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return ours, nil
}

func TestARealServerKeepsWaitingAndEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := facts.New()
		entries(store)
		l := &pipes{make(chan net.Conn), make(chan struct{})}
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- discovering(store).Run(ctx, l) }()
		client := &http.Client{Transport: &http.Transport{DialContext: l.dial, DisableKeepAlives: true}}
		get := func(params string) (string, error) {
			resp, err := client.Post("http://catenary/v1/discovery-chain/web"+params, "", strings.NewReader("{}"))
			if err != nil {
				return "", err
			}
			defer resp.Body.Close()
			var v struct{ Chain *chain.Chain }
			if err := json.NewDecoder(resp.Body).Decode(&v); err != nil || v.Chain == nil {
				return "", fmt.Errorf("status %d: %w", resp.StatusCode, err)
			}
			return resp.Header.Get("X-Consul-Index"), nil
		}
		first, err := get("")
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if again, err := get("?index=" + first + "&wait=9m"); err != nil || again != first || time.Since(begin) != 9*time.Minute {
			t.Errorf("%s %v after %s, not 9m", again, err, time.Since(begin))
		}
		begin = time.Now()
		time.AfterFunc(time.Minute, end)
		if again, err := get("?index=" + first); err != nil || again != first || time.Since(begin) != time.Minute {
			t.Errorf("at the end: %s %v after %s", again, err, time.Since(begin))
		}
		if err := <-ended; err != nil || time.Since(begin) > time.Minute+time.Second {
			t.Errorf("the server ended %v after %s", err, time.Since(begin))
		}
	})
}

func TestAForgottenChainIsNotTakenForUnchanged(t *testing.T) {
	store := facts.New()
	entries(store, timeout(time.Second))
	d := admin.NewDiscovery(store, func() (admin.Place, string) { return admin.Place{Datacenter: "dc1"}, "" })
	first := d.Chain(snapshot.ChainKey{Service: "web"}).Index
	for i := range 5000 {
		d.Chain(snapshot.ChainKey{Service: strconv.Itoa(i)})
	}
	entries(store, timeout(2*time.Second))
	if again := d.Chain(snapshot.ChainKey{Service: "web"}).Index; again <= first {
		t.Errorf("the content changed, and the index went from %d to %d", first, again)
	}
}

// FuzzOverrides sends bodies: each is taken or refused, and leaves the server as it was.
func FuzzOverrides(f *testing.F) {
	for _, body := range []string{
		"", "{}", "null", "[]", `{"OverrideProtocol":"http"}`, `{"override_connect_timeout":"3s","OverrideMeshGateway":{"Mode":"local"}}`,
		`{"OverrideConnectTimeout":1e300}`, `{"OverrideMeshGateway":[{"mode":["remote"]}],"OverrideProtocol":true}`,
	} {
		f.Add(body)
	}
	store := facts.New()
	entries(store, timeout(time.Second))
	s := discovering(store)
	plain := ask(f.Context(), s, "GET", "/v1/discovery-chain/web", "")
	f.Fuzz(func(t *testing.T, body string) {
		if got := ask(t.Context(), s, "POST", "/v1/discovery-chain/web", body); got.status != 200 && got.status != 400 {
			t.Errorf("%d %s", got.status, got.body)
		}
		if got := ask(t.Context(), s, "GET", "/v1/discovery-chain/web", ""); got.body != plain.body || got.index() != plain.index() {
			t.Errorf("%s became %s", plain.body, got.body)
		}
	})
}
