package session_test

import (
	"bytes"
	"testing"
	"time"
	"unicode/utf8"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/catenary-mesh/catenary/xds/session"
)

// sameAsMessage fails when the pieces of a response are not the message that it stands for.
func sameAsMessage(t *testing.T, form session.Form, r *session.Response) {
	t.Helper()
	var got, want proto.Message = &discoveryv3.DeltaDiscoveryResponse{}, r.Delta()
	if form == session.SotW {
		got, want = &discoveryv3.DiscoveryResponse{}, r.SotW()
	}
	raw := bytes.Join(r.Chunks(), nil)
	if err := proto.Unmarshal(raw, got); err != nil {
		t.Fatalf("%s: %v in %x", r.Type, err, raw)
	}
	canonical(t, got)
	canonical(t, want)
	if !proto.Equal(got, want) {
		t.Fatalf("%s: the pieces are\n%v\nwant\n%v", r.Type, got, want)
	}
	if r.Bytes() != len(raw) {
		t.Fatalf("%s: %d bytes announced, %d made", r.Type, r.Bytes(), len(raw))
	}
}

// canonical encodes wrapped resources anew: fields may come in any order.
func canonical(t *testing.T, m proto.Message) {
	t.Helper()
	sotw, _ := m.(*discoveryv3.DiscoveryResponse)
	for _, a := range sotw.GetResources() {
		wrapped := &discoveryv3.Resource{}
		if !a.MessageIs(wrapped) {
			continue
		}
		if err := a.UnmarshalTo(wrapped); err != nil {
			t.Fatal(err)
		}
		if err := anypb.MarshalFrom(a, wrapped, proto.MarshalOptions{Deterministic: true}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestChunksShareBodies(t *testing.T) {
	res := session.NewResource(clusterType(), "api", bytes.Repeat([]byte("x"), 5000), nil)
	for _, form := range []session.Form{session.SotW, session.Delta} {
		offer := newOffer()
		offer.resources["cluster/api"] = res
		s := session.New(session.Config{Form: form, ControlPlane: "catenary"})
		if err := s.Request(time.Time{}, &session.Request{TypeURL: session.ClusterURL}); err != nil {
			t.Fatal(err)
		}
		out, _ := s.Turn(time.Time{}, offer)
		sameAsMessage(t, form, &out[0])
		chunks := out[0].Chunks()
		last := func(b []byte) *byte { return &b[len(b)-1] }
		if len(chunks) != 2 || last(chunks[0]) != last(res.Body) {
			t.Errorf("form %d: %d pieces, of which the first does not end in the resource's own body", form, len(chunks))
		}
		if n := len(chunks[1]); n > 200 {
			t.Errorf("form %d: %d bytes beside the resource", form, n)
		}
	}
}

// FuzzChunks encodes what a name and a body may be.
func FuzzChunks(f *testing.F) {
	f.Add("api", "", []byte("body"), "gone")
	f.Add("", "catenary", []byte(nil), "")
	f.Fuzz(func(t *testing.T, name, server string, body []byte, absent string) {
		offer := newOffer()
		for _, typ := range session.Types() {
			offer.resources[typ.Name+"/"+name] = session.NewResource(typ, name, body, nil)
		}
		for _, form := range []session.Form{session.SotW, session.Delta} {
			s := session.New(session.Config{Form: form, ControlPlane: server})
			for _, typ := range session.Types() {
				names := []string{name, absent}
				err := s.Request(time.Time{}, &session.Request{TypeURL: typ.URL, Names: names, Subscribe: names})
				if err != nil || !utf8.ValidString(server) {
					return
				}
			}
			out, _ := s.Turn(time.Time{}, offer)
			for i := range out {
				sameAsMessage(t, form, &out[i])
			}
		}
	})
}
