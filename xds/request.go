package xds

import (
	"bytes"
	"fmt"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/catenary-mesh/catenary/xds/envoy"
	"github.com/catenary-mesh/catenary/xds/session"
)

// request is a message of a client that is to be decoded. Envoy's node takes 61 kB, nearly all of it a
// list of its extensions which nobody reads, and unless its bootstrap says otherwise Envoy sends it with
// each message.
type request struct {
	form session.Form
	// first says that the node is wanted: it counts in the first message of a stream only.
	first bool

	*session.Request
}

// The fields of a request, and of a node, that are left out.
const (
	sotwNode       protowire.Number = 2 // DiscoveryRequest.node
	deltaNode      protowire.Number = 1 // DeltaDiscoveryRequest.node
	nodeExtensions protowire.Number = 9 // Node.extensions
)

// runsWasm reports whether an Envoy with these extensions takes modules of WebAssembly as filters. No others are
// kept of a node.
func runsWasm(extensions []*corev3.Extension) bool {
	for _, name := range envoy.EvictionNeeds() {
		if !slices.ContainsFunc(extensions, func(e *corev3.Extension) bool { return e.GetName() == name }) {
			return false
		}
	}
	return true
}

// decode decodes a serialized message. It keeps nothing of data.
func (r *request) decode(data []byte) error {
	node := sotwNode
	if r.form == session.Delta {
		node = deltaNode
	}
	var err error
	if r.first {
		data, err = withoutExtensions(data, node)
	} else {
		data, err = without(data, node)
	}
	if err != nil {
		return err
	}
	if r.form == session.Delta {
		m := &discoveryv3.DeltaDiscoveryRequest{}
		err, r.Request = proto.Unmarshal(data, m), session.FromDelta(m)
		return err
	}
	m := &discoveryv3.DiscoveryRequest{}
	err, r.Request = proto.Unmarshal(data, m), session.FromSotW(m)
	return err
}

// withoutExtensions returns a message without the extensions of its node that nobody reads.
func withoutExtensions(data []byte, node protowire.Number) ([]byte, error) {
	kept := envoy.EvictionNeeds()
	return edit(data, node, func(out, field []byte) ([]byte, error) {
		_, _, head := protowire.ConsumeTag(field)
		value, n := protowire.ConsumeBytes(field[head:])
		if n < 0 {
			return nil, errMalformed(n)
		}
		value, err := edit(value, nodeExtensions, func(out, field []byte) ([]byte, error) {
			if slices.ContainsFunc(kept, func(name string) bool { return bytes.Contains(field, []byte(name)) }) {
				out = append(out, field...)
			}
			return out, nil
		})
		if err != nil {
			return nil, err
		}
		return protowire.AppendBytes(append(out, field[:head]...), value), nil
	})
}

// without returns a message without one of its fields.
func without(data []byte, unwanted protowire.Number) ([]byte, error) {
	return edit(data, unwanted, func(out, _ []byte) ([]byte, error) { return out, nil })
}

// edit returns a message in which change has appended something else in place of each field of a number that
// has bytes or a message. Without such a field that is the message itself.
func edit(data []byte, number protowire.Number, change func(out, field []byte) ([]byte, error)) ([]byte, error) {
	var out []byte
	edited := false
	for rest := data; len(rest) > 0; {
		num, typ, n := protowire.ConsumeField(rest)
		if n < 0 {
			return nil, errMalformed(n)
		}
		field := rest[:n]
		rest = rest[n:]
		if num != number || typ != protowire.BytesType {
			if edited {
				out = append(out, field...)
			}
			continue
		}
		if !edited {
			edited = true
			out = append(make([]byte, 0, 1024), data[:len(data)-len(rest)-n]...)
		}
		var err error
		if out, err = change(out, field); err != nil {
			return nil, err
		}
	}
	if !edited {
		return data, nil
	}
	return out, nil
}

func errMalformed(n int) error {
	return fmt.Errorf("the request is malformed: %w", protowire.ParseError(n))
}
