//go:build e2e

package intentions_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// way is something that a control plane can do when an intention is tightened.
type way struct {
	name   string
	before func(d *door) // a and b are allowed
	after  func(d *door) // b no longer is
}

// idle are the ways that leave open connections of the forbidden service as they are.
func idle() []way {
	standing := func(d *door) {
		d.cluster(nil)
		d.listen(nil, d.plain(allow("a", "b")))
	}
	discovering := func(more object) func(d *door) {
		return func(d *door) {
			d.cluster(byEDS(more))
			d.endpoints(endpoint(d.tcp.Port, nil))
			d.listen(nil, d.plain(allow("a", "b")))
		}
	}
	closing := object{"close_connections_on_host_health_failure": true, "ignore_health_on_host_removal": true, "common_lb_config": object{"close_connections_on_host_set_change": true}}
	return []way{
		{"rbac by discovery, with continuous enforcement", func(d *door) {
			d.cluster(nil)
			d.permit("a", "b")
			d.listen(nil, chain(downstreamTLS(d.ca), discovered(d.l4(), networkRBAC), tcpProxy(d.name)))
		}, func(d *door) {
			d.permit("a")
			d.turnsAway(d.t, "b")
		}},
		{"a change of the chain", standing, func(d *door) { d.listen(nil, d.plain(allow("a"))) }},
		{"a change of the listener", standing, func(d *door) {
			d.listen(object{"per_connection_buffer_limit_bytes": 65536}, d.plain(allow("a")))
		}},
		{"a removal of the listener", standing, func(d *door) { d.set(listenerType, d.name, nil) }},
		{"a change of the cluster", standing, func(d *door) { d.cluster(object{"connect_timeout": "4s"}) }},
		{"a removal of the cluster", standing, func(d *door) { d.set(clusterType, d.name, nil) }},
		{"a removal of the endpoint", discovering(closing), func(d *door) { d.endpoints() }},
		{"an endpoint that is not healthy", discovering(closing), func(d *door) {
			d.endpoints(with(endpoint(d.tcp.Port, nil), object{"health_status": "UNHEALTHY"}))
		}},
		{"a health check that moves to a closed port", func(d *door) {
			d.cluster(byEDS(checked(object{"tcp_health_check": object{}})))
			d.endpoints(endpoint(d.tcp.Port, object{"health_check_config": object{"port_value": d.tcp.Port}}))
			d.listen(nil, d.plain(allow("a", "b")))
		}, func(d *door) {
			d.endpoints(endpoint(d.tcp.Port, object{"health_check_config": object{"port_value": 1}}))
		}},
	}
}

// A newer Envoy that fails here has a simpler way than the module.
func TestOtherWays(t *testing.T) {
	holdEnvoysTo(t, behaviours{
		"what-does-not-end-open-connections":                       whatDoesNotEndOpenConnections,
		"a-failing-health-check-ends-all-of-tcp":                   aFailingHealthCheckEndsAllOfTCP,
		"rules-on-the-way-of-connections-are-not-configured-again": rulesOnTheWayAreNotConfiguredAgain,
		"listeners-inside-envoy-need-another-bootstrap":            listenersInsideNeedAnotherBootstrap,
	})
}

func whatDoesNotEndOpenConnections(t *testing.T, r *rig) {
	ways := idle()
	doors := make([]*door, len(ways))
	connections := make([]*held, len(ways))
	for i, w := range ways {
		doors[i] = r.door("door" + strconv.Itoa(i))
		w.before(doors[i])
		connections[i] = doors[i].mustConnect(t, "b")
	}
	streams := r.openStreams(t)
	for i, w := range ways {
		w.after(doors[i])
	}
	end := time.Now().Add(limit)
	for i, w := range ways {
		if connections[i].within(time.Until(end)) {
			t.Errorf("%s ends open connections", w.name)
		} else if err := connections[i].echo(); err != nil {
			t.Errorf("%s: %v", w.name, err)
		}
	}
	for _, h := range streams {
		if !h.open() {
			t.Errorf("rbac of requests by discovery ends a %s", h.name)
		}
	}
	// What is changed or removed is drained, whoever is connected.
	for _, name := range []string{"listener_manager.total_listeners_draining", "listener_manager.total_filter_chains_draining"} {
		if r.envoy.Stats()[name] == 0 {
			t.Errorf("%s is 0", name)
		}
	}
	r.accepted(t)
}

// openStreams has a service stream over HTTP, and then forbids it: open connections of it are refused, request by request.
func (r *rig) openStreams(t *testing.T) []*held {
	d := r.door("web")
	d.set(clusterType, d.name, cluster(d.name, d.web, nil))
	d.permit("a", "b")
	d.listen(nil, chain(downstreamTLS(d.ca, "h2", "http/1.1"), hcm(d.name, discovered(d.l7(), httpRBAC))))
	streams := d.streams(t, "b")
	h1, h2 := d.caller("b", "h1"), d.caller("b", "h2")
	h1.awaits(t, 200)
	h2.awaits(t, 200)
	d.permit("a")
	h1.awaits(t, 403)
	h2.awaits(t, 403)
	return streams
}

// A failing health check ends connections, but everybody's, and only those of TCP.
func aFailingHealthCheckEndsAllOfTCP(t *testing.T, r *rig) {
	var sick atomic.Bool
	health := object{"health_check_config": object{"port_value": startHealth(t, &sick)}}
	check := checked(object{"http_health_check": object{"path": "/"}})
	tcp, web := r.door("tcp"), r.door("web")
	tcp.cluster(byEDS(check))
	tcp.endpoints(endpoint(r.tcp.Port, health))
	tcp.listen(nil, tcp.plain(allow("a", "b")))
	web.set(clusterType, web.name, cluster(web.name, web.web, byEDS(check)))
	web.endpoints(endpoint(r.web, health))
	web.listen(nil, chain(downstreamTLS(web.ca, "h2", "http/1.1"), hcm(web.name)))
	a, b, streams := tcp.mustConnect(t, "a"), tcp.mustConnect(t, "b"), web.streams(t, "b")
	sick.Store(true)
	if !b.within(limit) || !a.within(limit) {
		t.Errorf("ended: a %t, b %t", !a.open(), !b.open())
	}
	testenv.Throughout(t, time.Second, func() error {
		for _, h := range streams {
			if !h.open() {
				t.Errorf("it ends a %s too", h.name)
			}
		}
		return nil
	})
	r.accepted(t)
}

// startHealth starts what is asked for its health, and returns its port.
func startHealth(t *testing.T, sick *atomic.Bool) int {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if sick.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).Port
}

// What a connection holds is taken up again without being configured, so the rules must be where no
// connection holds them.
func rulesOnTheWayAreNotConfiguredAgain(t *testing.T, r *rig) {
	d := r.door("tcp")
	d.cluster(nil)
	d.permit("a", "b")
	d.listen(nil, chain(downstreamTLS(d.ca), discovered(d.rules(), networkWasm), tcpProxy(d.name)))
	d.mustConnect(t, "b")
	tighten := func(within time.Duration) (open int) {
		forbidden := d.several(t, "b")
		d.permit("a")
		end := time.Now().Add(within)
		for _, h := range forbidden {
			if !h.within(time.Until(end)) {
				open++
			}
		}
		return open
	}
	if n := tighten(limit); n > 0 {
		t.Errorf("%d are open: rules that are new are not applied", n)
	}
	d.several(t, "a")
	d.permit("a", "b")
	if tighten(2*time.Second) == 0 {
		t.Error("rules that return are applied")
	}
}

func listenersInsideNeedAnotherBootstrap(t *testing.T, r *rig) {
	r.set(clusterType, "c", cluster("c", r.tcp.Port, nil))
	r.set(listenerType, "inside", object{
		"name": "inside", "internal_listener": object{}, "filter_chains": list{object{"filters": list{tcpProxy("c")}}},
	})
	testenv.Eventually(t, patience, func() error {
		for _, refused := range r.refusals() {
			if strings.Contains(refused, "InternalListener bootstrap extension is mandatory") {
				return nil
			}
		}
		return errors.New("an internal listener is not refused")
	})
}

// plain is a chain for TCP with rules of its own.
func (d *door) plain(rules object) object {
	return chain(downstreamTLS(d.ca), layer4("intentions", rules), tcpProxy(d.name))
}

func (d *door) endpoints(endpoints ...any) {
	d.set(endpointType, d.name, assignment(d.name, endpoints...))
}

// byEDS is what makes a cluster's endpoints come over ADS.
func byEDS(more object) object {
	return with(object{"type": "EDS", "load_assignment": nil, "eds_cluster_config": object{"eds_config": ads()}}, more)
}

// checked is what makes Envoy check the health of a cluster's endpoints, and close connections when it fails.
func checked(kind object) object {
	return object{"close_connections_on_host_health_failure": true, "health_checks": list{with(kind, object{
		"timeout": "1s", "interval": "0.5s", "no_traffic_interval": "0.5s", "unhealthy_threshold": 1, "healthy_threshold": 1,
	})}}
}
