package session_test

import (
	"bytes"
	"strings"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/catenary-mesh/catenary/xds/session"
)

// content is what a client reads of one resource: the body as [offer.put] wrote it, and what wraps it.
type content struct {
	name, version string
	refs          []string
	absent        bool // an empty assignment, or removed by delta
	ttl           time.Duration
	beat          bool      // a heartbeat: there is no body
	ends          time.Time // of the TTL, at the client
}

func contentOf(body []byte) content {
	if body[0] == 0x0a { // cluster_name, length-delimited
		return content{name: string(body[2:]), absent: true}
	}
	key, rest, _ := strings.Cut(string(body), "=")
	rest, refs, _ := strings.Cut(rest, ">")
	version, _, _ := strings.Cut(rest, "~")
	_, name, _ := strings.Cut(key, "/")
	c := content{name: name, version: version}
	if refs != "" {
		c.refs = strings.Split(refs, ",")
	}
	return c
}

// bad content is refused by every client, good content by none.
func (c content) bad() bool { return strings.HasSuffix(c.version, "!") }

// read decodes what a response is on the wire.
func read(form session.Form, r *session.Response) (contents []content, removed []string) {
	raw := bytes.Join(r.Chunks(), nil)
	if form == session.Delta {
		m := &discoveryv3.DeltaDiscoveryResponse{}
		decode(raw, m)
		for _, res := range m.GetResources() {
			contents = append(contents, unwrap(res))
		}
		return contents, m.GetRemovedResources()
	}
	m := &discoveryv3.DiscoveryResponse{}
	decode(raw, m)
	for _, a := range m.GetResources() {
		res := &discoveryv3.Resource{Resource: a}
		if a.MessageIs(res) {
			decode(a.GetValue(), res)
		}
		contents = append(contents, unwrap(res))
	}
	return contents, nil
}

func unwrap(res *discoveryv3.Resource) content {
	c := content{name: res.GetName(), version: res.GetVersion(), beat: true}
	if res.GetResource() != nil {
		c = contentOf(res.GetResource().GetValue())
	}
	c.ttl = res.GetTtl().AsDuration()
	return c
}

func decode(raw []byte, m proto.Message) {
	if a, ok := m.(*discoveryv3.Resource); ok {
		a.Resource = (*anypb.Any)(nil)
	}
	if err := proto.Unmarshal(raw, m); err != nil {
		panic(err)
	}
}
