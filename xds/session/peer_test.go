package session_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/genproto/googleapis/rpc/status"

	"github.com/catenary-mesh/catenary/xds/session"
)

// message is one response on the wire, in the terms of both forms.
type message struct {
	typ            *session.Type
	nonce, version string
	contents       []content
	removed        []string
	sentAt         time.Time
}

func receive(form session.Form, r *session.Response, now time.Time) *message {
	m := &message{typ: r.Type, nonce: r.Nonce, version: r.Version, sentAt: now}
	m.contents, m.removed = read(form, r)
	return m
}

// half is what a client keeps of one type.
type half struct {
	asked, wildcard bool
	everNamed       bool // on this stream
	names           map[string]bool
	have            map[string]content
	nonce, info     string
}

// peer is a client that follows the protocol: it takes responses in order, some time after they were
// sent, and says what it wants at any time.
type peer struct {
	cfg   session.Config
	form  session.Form
	node  *corev3.Node
	s     *session.Session
	types map[*session.Type]*half
	wire  []*message
}

func newPeer(cfg session.Config, leases bool) *peer {
	p := &peer{cfg: cfg, form: cfg.Form, node: modernEnvoy(), s: session.New(cfg), types: map[*session.Type]*half{}}
	if leases {
		p.node.ClientFeatures = []string{"xds.config.resource-in-sotw", "xds.config.supports-resource-ttl"}
	}
	for _, t := range session.Types() {
		p.types[t] = &half{names: map[string]bool{}, have: map[string]content{}}
	}
	return p
}

// reconnect begins a new stream with what the client holds.
func (p *peer) reconnect(now time.Time) error {
	p.s, p.wire = session.New(p.cfg), nil
	for _, t := range session.Types() {
		h := p.types[t]
		h.nonce, h.everNamed = "", false
		h.asked = h.asked && (h.wildcard || len(h.names) > 0)
		if !h.asked {
			continue
		}
		if err := p.say(now, t, h.first()); err != nil {
			return err
		}
	}
	return nil
}

// first is a delta message that begins a type.
func (h *half) first() *discoveryv3.DeltaDiscoveryRequest {
	m := &discoveryv3.DeltaDiscoveryRequest{InitialResourceVersions: map[string]string{}}
	m.ResourceNamesSubscribe = slices.Sorted(maps.Keys(h.names))
	if h.wildcard {
		m.ResourceNamesSubscribe = append(m.ResourceNamesSubscribe, "*")
	}
	for name, c := range h.have {
		if !c.absent {
			m.InitialResourceVersions[name] = c.version
		}
	}
	return m
}

// say sends a message, which in delta is the one given and in SotW says all anyway.
func (p *peer) say(now time.Time, t *session.Type, delta *discoveryv3.DeltaDiscoveryRequest) error {
	h, url := p.types[t], t.URL
	if p.cfg.Only != nil {
		url = ""
	}
	if p.form == session.Delta {
		delta.TypeUrl, delta.Node = url, p.node
		return p.s.Request(now, session.FromDelta(delta))
	}
	names := slices.Sorted(maps.Keys(h.names))
	if h.everNamed = h.everNamed || len(names) > 0; h.wildcard && h.everNamed {
		names = append(names, "*") // an empty list would end it
	}
	return p.s.Request(now, session.FromSotW(&discoveryv3.DiscoveryRequest{
		TypeUrl: url, Node: p.node, ResponseNonce: h.nonce, VersionInfo: h.info, ResourceNames: names,
		ErrorDetail: delta.GetErrorDetail(),
	}))
}

// modernEnvoy spells out its wildcards.
func modernEnvoy() *corev3.Node {
	return &corev3.Node{
		Id: "web-1", UserAgentName: "envoy", UserAgentVersionType: &corev3.Node_UserAgentBuildVersion{
			UserAgentBuildVersion: &corev3.BuildVersion{Version: &typev3.SemanticVersion{MajorNumber: 1, MinorNumber: 40}},
		},
	}
}

func (p *peer) subscribe(now time.Time, t *session.Type, name string) error {
	h := p.types[t]
	if !h.asked && h.wildcard {
		h.asked = true
		return p.say(now, t, &discoveryv3.DeltaDiscoveryRequest{})
	}
	h.asked = true
	h.names[name] = true
	return p.say(now, t, &discoveryv3.DeltaDiscoveryRequest{ResourceNamesSubscribe: []string{name}})
}

func (p *peer) unsubscribe(now time.Time, t *session.Type, name string) error {
	h := p.types[t]
	if !h.names[name] {
		return nil
	}
	delete(h.names, name)
	if !h.wildcard {
		delete(h.have, name)
	}
	return p.say(now, t, &discoveryv3.DeltaDiscoveryRequest{ResourceNamesUnsubscribe: []string{name}})
}

// answer takes the oldest message off the wire and answers it. A client that refuses takes what is
// good of it or nothing at all, and may or may not name what is bad.
func (p *peer) answer(now time.Time, partly, names bool) error {
	m := p.wire[0]
	p.wire = p.wire[1:]
	h := p.types[m.typ]
	var blamed []string
	for _, c := range m.contents {
		if c.bad() || (c.beat && p.form == session.Delta && h.have[c.name].version != c.version) {
			blamed = append(blamed, c.name)
		}
	}
	reply := &discoveryv3.DeltaDiscoveryRequest{ResponseNonce: m.nonce}
	h.nonce = m.nonce
	if len(blamed) > 0 {
		reply.ErrorDetail = &status.Status{Code: 3, Message: "refused"}
		if names {
			reply.ErrorDetail.Message = fmt.Sprint("refused: ", blamed)
		}
	} else {
		h.info = m.version
	}
	if len(blamed) == 0 || partly {
		p.apply(now, h, m)
	}
	return p.say(now, m.typ, reply)
}

func (p *peer) apply(now time.Time, h *half, m *message) {
	full := p.form == session.SotW && (m.typ.URL == session.ClusterURL || m.typ.URL == session.ListenerURL)
	listed := map[string]bool{}
	for _, c := range m.contents {
		listed[c.name] = true
		have, ok := h.have[c.name]
		if c.beat {
			if ok && (p.form == session.SotW || have.version == c.version) {
				have.ends = now.Add(c.ttl)
				h.have[c.name] = have
			}
			continue
		}
		if c.ttl > 0 {
			c.ends = now.Add(c.ttl)
		}
		if !c.bad() && (h.wildcard || h.names[c.name]) {
			h.have[c.name] = c
		}
	}
	for _, name := range m.removed {
		delete(h.have, name)
	}
	if full {
		maps.DeleteFunc(h.have, func(name string, _ content) bool { return !listed[name] })
	}
}
