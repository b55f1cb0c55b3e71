package wire

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Request is a DeltaDiscoveryRequest.
type Request struct {
	// Node is nil on all but the first request of a stream.
	Node                   *Node
	Type                   string
	Subscribe, Unsubscribe []string
	// Initial are the versions held of an earlier stream, by name.
	Initial map[string]string
	// Nonce makes it the answer to a response: an ACK, or with Refusal a NACK.
	Nonce   []byte
	Refusal string
}

// Node is who an imitated Envoy says it is.
type Node struct {
	// ID is the ID of the sidecar's registration and Cluster the name of its service, as `consul connect
	// envoy -bootstrap` writes them; Name is the node of the catalog that it is registered on.
	ID, Cluster, Name string
}

// Append appends the encoded request to b.
func (r *Request) Append(b []byte) []byte {
	if r.Node != nil {
		b = appendBytes(b, 1, r.Node.append(nil))
	}
	b = appendString(b, 2, r.Type)
	for _, name := range r.Subscribe {
		b = appendString(b, 3, name)
	}
	for _, name := range r.Unsubscribe {
		b = appendString(b, 4, name)
	}
	if len(r.Initial) > 0 {
		for _, name := range slices.Sorted(maps.Keys(r.Initial)) {
			b = appendBytes(b, 5, appendString(appendString(nil, 1, name), 2, r.Initial[name]))
		}
	}
	if len(r.Nonce) > 0 {
		b = appendBytes(b, 6, r.Nonce)
	}
	if r.Refusal != "" {
		const invalidArgument = 3
		b = appendBytes(b, 7, appendString(appendInt(nil, 1, invalidArgument), 2, r.Refusal))
	}
	return b
}

// The version that imitated Envoys say they are: the newest that Consul 1.22 knows.
const envoyMajor, envoyMinor = 1, 35

func (n *Node) append(b []byte) []byte {
	b = appendString(b, 1, n.ID)
	b = appendString(b, 2, n.Cluster)
	if n.Name != "" {
		value := appendString(nil, 3, n.Name)
		entry := appendBytes(appendString(nil, 1, "node_name"), 2, value)
		b = appendBytes(b, 3, appendBytes(nil, 1, entry))
	}
	b = appendString(b, 6, "envoy")
	version := appendInt(appendInt(nil, 1, envoyMajor), 2, envoyMinor)
	return appendBytes(b, 8, appendBytes(nil, 1, version))
}

func appendString(b []byte, num protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), s)
}

func appendBytes(b []byte, num protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), v)
}

func appendInt(b []byte, num protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), v)
}
