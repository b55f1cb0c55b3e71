package snapshot

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// inboundOf is the part of a plan that a registration of web's sidecar makes, with some entries.
func inboundOf(t *testing.T, service facts.Service, entries ...chain.Entry) *Part {
	t.Helper()
	byKind := map[chain.Kind][]chain.Entry{}
	for _, e := range entries {
		byKind[e.Kind()] = append(byKind[e.Kind()], e)
	}
	store := facts.New()
	store.Commit(func(tx *facts.Tx) {
		for _, kind := range chain.AllKinds() {
			tx.Entries(kind, byKind[kind], facts.Reading{Confirmed: true})
		}
		tx.DefaultIntention(true)
	})
	return plannedInbound(store, service)
}

func plannedInbound(store *facts.Store, service facts.Service) *Part {
	service.Proxy.DestinationServiceName = "web"
	key := inboundKey(Client{Wasm: true}, &facts.Instance{Node: facts.Node{Address: "10.0.0.1"}, Service: service})
	return key.plan(&planner{cfg: Config{Datacenter: "dc1", TrustDomain: "t.consul"}, r: store.View().Read()})
}

// sidecar is a registration with a free-form configuration.
func sidecar(config map[string]any) facts.Service {
	return facts.Service{Port: 21000, Proxy: &facts.Proxy{LocalServicePort: 8080, Config: config}}
}

// made returns the product key under a name.
func made[K Key](t *testing.T, p *Part, name string) K {
	t.Helper()
	for _, ref := range p.Resources {
		if key, ok := ref.Key.(K); ok && ref.Name == name {
			return key
		}
	}
	t.Fatalf("no %s among %+v (missing %q, pending %q)", name, p.Resources, p.Missing, p.Pending)
	panic("not reached")
}

func resourceNames(p *Part) (names []string) {
	for _, ref := range p.Resources {
		names = append(names, ref.Name)
	}
	return names
}

func TestASidecarListensWhereItsRegistrationSays(t *testing.T) {
	for name, c := range map[string]struct {
		service facts.Service
		want    string
	}{
		"everywhere without an address": {sidecar(nil), "public_listener:0.0.0.0:21000"},
		"at its own address":            {facts.Service{Address: "10.0.0.8", Port: 21000, Proxy: &facts.Proxy{}}, "public_listener:10.0.0.8:21000"},
		"at an IPv6 address":            {facts.Service{Address: "::1", Port: 21000, Proxy: &facts.Proxy{}}, "public_listener:[::1]:21000"},
		"where its configuration says": {
			sidecar(map[string]any{"bind_address": "10.0.0.9", "Bind_Port": "21999"}), "public_listener:10.0.0.9:21999",
		},
	} {
		t.Run(name, func(t *testing.T) {
			made[PublicListenerKey](t, inboundOf(t, c.service), c.want)
		})
	}
}

func TestWhatCannotBeListenedAtIsSaid(t *testing.T) {
	for want, service := range map[string]facts.Service{
		"has no port":               {Proxy: &facts.Proxy{}},
		`"web.example"`:             {Address: "web.example", Port: 1, Proxy: &facts.Proxy{}},
		`local_service_address "lo`: {Port: 1, Proxy: &facts.Proxy{LocalServiceAddress: "localhost"}},
	} {
		p := inboundOf(t, service)
		if len(p.Resources) > 0 || len(p.Missing) != 1 || !strings.Contains(p.Missing[0], want) {
			t.Errorf("want a reason with %q, got %q and %v", want, p.Missing, resourceNames(p))
		}
	}
}

func TestTheConfigurationOfASidecarIsWeaklyTyped(t *testing.T) {
	want := InboundConfig{
		Protocol: "http", BindPort: 21999, ConnectTimeout: 1234 * time.Millisecond,
		RequestTimeout: Timeout{Set: true}, IdleTimeout: Timeout{Set: true, Value: 3 * time.Millisecond},
		MaxConnections: 77, Balance: "exact_balance", MaxRequestHeadersKB: 96,
	}
	for name, config := range map[string]map[string]any{
		"as text": {
			"protocol": "HTTP", "bind_port": "21999", "local_connect_timeout_ms": "1234", "local_request_timeout_ms": "0",
			"local_idle_timeout_ms": "3", "max_inbound_connections": "77", "balance_inbound_connections": "exact_balance",
			"max_request_headers_kb": "96",
		},
		"as numbers": {
			"Protocol": "http", "bind_port": 21999.0, "local_connect_timeout_ms": int64(1234), "local_request_timeout_ms": 0,
			"local_idle_timeout_ms": 3, "max_inbound_connections": uint8(77), "balance_inbound_connections": "exact_balance",
			"max_request_headers_kb": 96,
		},
	} {
		got, notes := fromProxyConfig(config)
		if got != want || len(notes) > 0 {
			t.Errorf("%s: %+v, notes %q, want %+v", name, got, notes, want)
		}
	}
}

func TestWhatDoesNotFitIsNotedAndTheRestStands(t *testing.T) {
	p := inboundOf(t, sidecar(map[string]any{
		"protocol": "http", "bind_port": "nonsense", "local_connect_timeout_ms": -1, "local_request_timeout_ms": "-5",
		"local_idle_timeout_ms": 1e300, "max_inbound_connections": []any{1, 2}, "balance_inbound_connections": "best",
		"max_request_headers_kb": 9000, "bind_address": map[string]any{"a": 1}, "BindPort": 7,
		"envoy_public_listener_json": "{}", "something_else": true,
	}))
	key := made[PublicListenerKey](t, p, "public_listener:0.0.0.0:21000")
	if key.Protocol != "http" || key.Limits != (InboundLimits{}) || key.HTTP != (InboundHTTP{}) {
		t.Errorf("%+v", key)
	}
	if len(p.Notes) != 10 {
		t.Errorf("%d notes, want one for each that does not fit: %q", len(p.Notes), p.Notes)
	}
	for _, want := range []string{"BindPort is ignored: write bind_port", `bind_port is ignored: "nonsense"`, "replacing what is made for Envoy"} {
		if !strings.Contains(strings.Join(p.Notes, "\n"), want) {
			t.Errorf("nothing says %q: %q", want, p.Notes)
		}
	}
}

func TestARegistrationCountsBeforeServiceDefaultsAndThoseBeforeProxyDefaults(t *testing.T) {
	headers := uint32(88)
	global := &chain.ProxyDefaults{Header: chain.Header{Name: chain.GlobalName}, Config: map[string]any{
		"protocol": "http2", "local_idle_timeout_ms": 1, "local_connect_timeout_ms": 9, "bind_port": 3,
	}}
	defaults := &chain.ServiceDefaults{
		Header: chain.Header{Name: "web"}, Protocol: "grpc", MaxInboundConnections: 5, LocalConnectTimeoutMs: 10,
		LocalRequestTimeoutMs: 11, BalanceInboundConnections: "exact_balance", MaxRequestHeadersKB: &headers,
	}
	central := func(protocol string, port int) PublicListenerKey {
		return PublicListenerKey{
			Evicts:  true,
			Address: "0.0.0.0", Port: port, Protocol: protocol, Limits: InboundLimits{MaxConnections: 5, ExactBalance: true},
			HTTP: InboundHTTP{
				RequestTimeout: Timeout{true, 11 * time.Millisecond}, IdleTimeout: Timeout{true, time.Millisecond}, MaxRequestHeadersKB: 88,
			},
		}
	}
	for name, c := range map[string]struct {
		config  map[string]any
		entries []chain.Entry
		want    PublicListenerKey
		connect time.Duration
	}{
		"central": {nil, []chain.Entry{global, defaults}, central("grpc", 3), 10 * time.Millisecond},
		"its own first, but for zeros": {
			map[string]any{"protocol": "http", "bind_port": 7, "local_connect_timeout_ms": 0},
			[]chain.Entry{global, defaults},
			central("http", 7), 10 * time.Millisecond,
		},
		// The chain of such a service is one of tcp, and yet Consul's own sidecars take http2.
		"defaults that say nothing": {
			nil,
			[]chain.Entry{global, &chain.ServiceDefaults{Header: chain.Header{Name: "web"}}},
			PublicListenerKey{Evicts: true, Address: "0.0.0.0", Port: 3, Protocol: "http2", HTTP: InboundHTTP{IdleTimeout: Timeout{true, time.Millisecond}}},
			9 * time.Millisecond,
		},
		"nothing": {nil, nil, PublicListenerKey{Evicts: true, Address: "0.0.0.0", Port: 21000, Protocol: "tcp"}, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			p := inboundOf(t, sidecar(c.config), c.entries...)
			got := made[PublicListenerKey](t, p, InboundListenerName(PublicListener, "0.0.0.0", c.want.Port))
			if got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
			if app := made[LocalClusterKey](t, p, LocalApp); app.ConnectTimeout != c.connect || app.MaxConnections != c.want.Limits.MaxConnections {
				t.Errorf("%+v, want to try for %s", app, c.connect)
			}
		})
	}
}

func TestTheMeshEntryShapesWhatComesIn(t *testing.T) {
	mesh := &chain.Mesh{
		Header: chain.Header{Name: chain.MeshName},
		TLS: &chain.MeshTLS{
			Incoming: &chain.MeshTLSParameters{TLSMinVersion: "TLSv1_3"}, Outgoing: &chain.MeshTLSParameters{TLSMinVersion: "TLSv1_2"},
		},
		HTTP: &chain.MeshHTTP{
			SanitizeXForwardedClientCert: true,
			Incoming:                     &chain.MeshIncoming{RequestNormalization: &chain.RequestNormalization{MergeSlashes: true}},
		},
	}
	tcp := made[PublicListenerKey](t, inboundOf(t, sidecar(nil), mesh), "public_listener:0.0.0.0:21000")
	if tcp.TLS.MinVersion != "TLSv1_3" || tcp.HTTP != (InboundHTTP{}) {
		t.Errorf("tcp: %+v", tcp)
	}
	http := made[PublicListenerKey](t, inboundOf(t, sidecar(map[string]any{"protocol": "http"}), mesh), "public_listener:0.0.0.0:21000")
	if !http.HTTP.SanitizeClientCert || !http.HTTP.Normalization.MergeSlashes {
		t.Errorf("http: %+v", http)
	}
}

func TestAServiceIsFoundAtItsAddressOrOnItsSocket(t *testing.T) {
	for name, c := range map[string]struct {
		proxy facts.Proxy
		want  LocalService
	}{
		"on this machine": {facts.Proxy{LocalServicePort: 8080}, LocalService{Address: "127.0.0.1", Port: 8080}},
		"at an address":   {facts.Proxy{LocalServiceAddress: "10.1.1.1", LocalServicePort: 8080}, LocalService{Address: "10.1.1.1", Port: 8080}},
		"on a socket": {
			facts.Proxy{LocalServiceSocketPath: "/tmp/web.sock", LocalServicePort: 8080},
			LocalService{Address: "127.0.0.1", SocketPath: "/tmp/web.sock"},
		},
	} {
		p := inboundOf(t, facts.Service{Port: 21000, Proxy: &c.proxy})
		if got := made[LocalClusterKey](t, p, LocalApp).At; got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	if p := inboundOf(t, facts.Service{Port: 21000, Proxy: &facts.Proxy{}}); len(p.Notes) != 1 {
		t.Errorf("nothing says that the service has no port: %q", p.Notes)
	}
}

func TestPathsAreExposedEachAtItsPort(t *testing.T) {
	paths := []chain.ExposePath{
		{ListenerPort: 21500, Path: "/health", LocalPathPort: 8080},
		{ListenerPort: 21501, Path: "/metrics/all", LocalPathPort: 9090, Protocol: "http2"},
		{ListenerPort: 21502, Path: "/a-b_c.d/~e%20f?x=1", LocalPathPort: 9090},
		{ListenerPort: 21503, Path: "/check", LocalPathPort: 9091, ParsedFromCheck: true},
		{ListenerPort: 21500, Path: "/twice", LocalPathPort: 8080},
		{ListenerPort: 21000, Path: "/public", LocalPathPort: 8080},
		{ListenerPort: 21504, Path: "", LocalPathPort: 8080},
		{ListenerPort: 70000, Path: "/far", LocalPathPort: 8080},
		{ListenerPort: 21505, Path: "/nowhere"},
		{ListenerPort: 21506, Path: "/calls", LocalPathPort: 8080, Protocol: "grpc"},
	}
	service := sidecar(map[string]any{"max_inbound_connections": 9, "max_request_headers_kb": 96})
	service.Proxy.Expose = chain.Expose{Checks: true, Paths: paths}
	p := inboundOf(t, service)
	want := []string{
		"intentions-connections", "intentions", "intentions-eviction", "public_listener:0.0.0.0:21000",
		"exposed_path_health:0.0.0.0:21500", "exposed_path_metricsall:0.0.0.0:21501",
		"exposed_path_abcde20fx1:0.0.0.0:21502", "exposed_path_check:0.0.0.0:21503",
		"exposed_cluster_9090", "exposed_cluster_9091", "local_app",
	}
	if got := resourceNames(p); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if len(p.Missing) != 7 {
		t.Errorf("want a reason for checks and for six paths: %q", p.Missing)
	}
	if k := made[ExposedListenerKey](t, p, want[4]); k.Cluster != LocalApp || k.Protocol != "http" || k.MaxRequestHeadersKB != 96 || k.LocalOnly {
		t.Errorf("%+v", k)
	}
	if k := made[ExposedListenerKey](t, p, want[7]); k.Cluster != "exposed_cluster_9091" || !k.LocalOnly || k.Source != "10.0.0.1" {
		t.Errorf("%+v", k)
	}
	if k := made[LocalClusterKey](t, p, "exposed_cluster_9090"); k.Protocol != "http" || k.MaxConnections != 9 || k.At.Port != 9090 {
		t.Errorf("of two paths at a port the last decides: %+v", k)
	}
}

func TestExposedPathsComeFromTheFirstThatHasSome(t *testing.T) {
	expose := func(path string) chain.Expose {
		return chain.Expose{Paths: []chain.ExposePath{{ListenerPort: 21500, Path: path, LocalPathPort: 8080}}}
	}
	global := &chain.ProxyDefaults{Header: chain.Header{Name: chain.GlobalName}, Expose: expose("/p")}
	defaults := &chain.ServiceDefaults{Header: chain.Header{Name: "web"}, Expose: expose("/s")}
	own := sidecar(nil)
	own.Proxy.Expose = expose("/o")
	for want, p := range map[string]*Part{
		"exposed_path_o:0.0.0.0:21500": inboundOf(t, own, global, defaults),
		"exposed_path_s:0.0.0.0:21500": inboundOf(t, sidecar(nil), global, defaults),
		"exposed_path_p:0.0.0.0:21500": inboundOf(t, sidecar(nil), global),
	} {
		made[ExposedListenerKey](t, p, want)
	}
}

func TestNothingIsOpenedBeforeItIsKnownWhoMayTalk(t *testing.T) {
	store := facts.New()
	if p := plannedInbound(store, sidecar(nil)); p.Pending == "" || len(p.Resources) > 0 {
		t.Errorf("of an empty store: pending %q, %v", p.Pending, resourceNames(p))
	}
	store.Commit(func(tx *facts.Tx) {
		for _, kind := range chain.AllKinds() {
			tx.Entries(kind, nil, facts.Reading{Confirmed: true})
		}
	})
	p := plannedInbound(store, sidecar(nil))
	if !strings.Contains(p.Pending, facts.DefaultIntention().String()) || len(p.Resources) > 0 {
		t.Errorf("without what holds by default: pending %q, %v", p.Pending, resourceNames(p))
	}
	if !reflect.DeepEqual(p.needs, []facts.Topic{facts.DefaultIntention()}) {
		t.Errorf("it needs %v", p.needs)
	}
}

func TestAccessLogsThatEnvoyWouldRefuseAreNone(t *testing.T) {
	for name, c := range map[string]struct {
		logs chain.AccessLogs
		want bool
	}{
		"not enabled":          {chain.AccessLogs{TextFormat: "x"}, false},
		"to stdout":            {chain.AccessLogs{Enabled: true}, true},
		"to a file":            {chain.AccessLogs{Enabled: true, Type: "file", Path: "/tmp/x"}, true},
		"to a file of no name": {chain.AccessLogs{Enabled: true, Type: "file"}, false},
		"in JSON":              {chain.AccessLogs{Enabled: true, JSONFormat: `{"a": "%PROTOCOL%"}`}, true},
		"in JSON of no fields": {chain.AccessLogs{Enabled: true, JSONFormat: `[1]`}, false},
	} {
		entry := &chain.ProxyDefaults{Header: chain.Header{Name: chain.GlobalName}, AccessLogs: &c.logs}
		key := made[PublicListenerKey](t, inboundOf(t, sidecar(nil), entry), "public_listener:0.0.0.0:21000")
		if key.AccessLogs.Enabled != c.want {
			t.Errorf("%s: %+v", name, key.AccessLogs)
		}
	}
}

// Of two sidecars of a service, one may run WebAssembly and the other not: they share all but their listeners.
func TestOnlyWhoRunsWasmGetsTheModule(t *testing.T) {
	service := sidecar(nil)
	service.Proxy.DestinationServiceName = "web"
	with, without := inboundKey(Client{Wasm: true}, &facts.Instance{Service: service}), inboundKey(Client{}, &facts.Instance{Service: service})
	store := facts.New()
	store.Commit(func(tx *facts.Tx) {
		for _, kind := range chain.AllKinds() {
			tx.Entries(kind, nil, facts.Reading{Confirmed: true})
		}
		tx.DefaultIntention(true)
	})
	plan := func(k InboundKey) *Part {
		return k.plan(&planner{cfg: Config{Datacenter: "dc1", TrustDomain: "t.consul"}, r: store.View().Read()})
	}
	one, other := plan(with), plan(without)
	const listener = "public_listener:0.0.0.0:21000"
	if !made[PublicListenerKey](t, one, listener).Evicts || made[PublicListenerKey](t, other, listener).Evicts {
		t.Error("the module is not with who runs it")
	}
	if names := resourceNames(other); slices.Contains(names, EvictionConfig) || !slices.Contains(resourceNames(one), EvictionConfig) {
		t.Errorf("without WebAssembly there are %q", names)
	}
	for _, layer7 := range []bool{false, true} {
		name := IntentionsName(layer7)
		if made[IntentionsKey](t, one, name) != made[IntentionsKey](t, other, name) {
			t.Errorf("%s is made twice", name)
		}
	}
	if len(one.Notes) != 0 || len(other.Notes) != 1 || !strings.Contains(other.Notes[0], "no WebAssembly") {
		t.Errorf("notes %q and %q", one.Notes, other.Notes)
	}
}
