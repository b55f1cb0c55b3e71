package session_test

import (
	"fmt"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/catenary-mesh/catenary/xds/session"
)

// FuzzStream runs the model of [TestRandomStreams] over what the fuzzer finds.
func FuzzStream(f *testing.F) {
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4<<10 {
			return // long inputs find nothing that short ones do not
		}
		newModel(t, data).run()
	})
}

// FuzzRequests sends what no client should: any nonce, any names, any order. No request may panic, or
// make more responses than one per type and answer.
func FuzzRequests(f *testing.F) {
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		src := &source{data}
		first := src.next(256)
		cfg := session.Config{Form: session.Form(first % 2), MaxNames: 20}
		if first/2%4 == 3 {
			cfg.Only = session.Types()[first/8%7]
		}
		form, s, offer := cfg.Form, session.New(cfg), newOffer()
		now := time.Unix(0, 0)
		nonces := map[string]bool{"": true}
		for len(src.data) > 0 {
			req := hostile(src)
			if cfg.Only != nil {
				req.TypeURL = ""
			}
			if err := s.Request(now, req); err != nil {
				return
			}
			switch t := session.Types()[src.next(7)]; src.next(4) {
			case 0:
				offer.put(fmt.Sprintf("%s/%s=%d%s>%s", t, names(src), src.next(9)+1, []string{"", "~1s"}[src.next(2)], names(src)))
			case 1:
				offer.incomplete = !offer.incomplete
			case 2:
				s.DirtyAll()
			case 3:
				s.Dirty(t, names(src))
			}
			seen := map[*session.Type]bool{}
			out, _ := s.Turn(now, offer)
			for i := range out {
				if seen[out[i].Type] || nonces[out[i].Nonce] {
					t.Fatalf("%s: a second response in a turn, or nonce %q again", out[i].Type, out[i].Nonce)
				}
				seen[out[i].Type], nonces[out[i].Nonce] = true, true
				sameAsMessage(t, form, &out[i])
			}
			s.Status(now)
			now = now.Add(time.Duration(src.next(3)) * time.Second)
		}
	})
}

func names(src *source) string { return []string{"a", "b", "ab", "*", "a.x"}[src.next(5)] }

func hostile(src *source) *session.Request {
	req := &session.Request{TypeURL: session.Types()[src.next(7)].URL, Node: &corev3.Node{
		ClientFeatures: []string{"xds.config.resource-in-sotw", "xds.config.supports-resource-ttl"}[src.next(3):2:2],
	}}
	req.Nonce = []string{"", "1", "2", "3", "4", "5", "6", "7"}[src.next(8)]
	req.Version = []string{"", "v"}[src.next(2)]
	if src.next(3) == 0 {
		req.Error = &session.Refusal{Message: names(src)}
	}
	for range src.next(4) {
		req.Names = append(req.Names, names(src))
		req.Subscribe = append(req.Subscribe, names(src))
	}
	for range src.next(3) {
		req.Unsubscribe = append(req.Unsubscribe, names(src))
	}
	for range src.next(3) {
		if req.Initial == nil {
			req.Initial = map[string]string{}
		}
		req.Initial[names(src)] = fmt.Sprint(src.next(3))
	}
	return req
}
