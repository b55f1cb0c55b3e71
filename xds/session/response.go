package session

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// Response is one message to the client. It does not change.
type Response struct {
	Type *Type
	// Nonce is unique on the stream.
	Nonce string
	// Version is a hash over the names and versions of all that the client holds with this response.
	Version string
	// Resources are sorted by name, without duplicates.
	Resources []*Resource
	// Removed (delta) are names that do not exist, or not any more; sorted.
	Removed []string
	// Heartbeats are resources whose TTL begins anew, and of which nothing else is sent; sorted by
	// name, and none of them among Resources.
	Heartbeats []*Resource
	// Overdue is how many of the resources go before the client accepted the clusters they refer
	// to, because it took too long.
	Overdue int

	form         Form
	leases       bool // the client takes TTLs
	controlPlane string
}

// Chunks returns the serialized message of the stream's form in pieces: the bytes of the resources,
// which are shared with all other streams and not to be written to, and a few of this message's own.
func (r *Response) Chunks() [][]byte {
	chunks := make([][]byte, 0, len(r.Resources)+1)
	for _, res := range r.Resources {
		if r.leases && res.TTL > 0 {
			chunks = append(chunks, res.frame.lead(r.form, res.TTL), res.frame.wrapped())
		} else {
			chunks = append(chunks, res.frame.in(r.form))
		}
	}
	for _, res := range r.Heartbeats {
		chunks = append(chunks, heartbeat(r.form, res.Name, r.beatVersion(res), res.TTL))
	}
	return append(chunks, r.tail())
}

// Bytes returns the size of the serialized message.
func (r *Response) Bytes() int {
	n := r.tailSize()
	for _, res := range r.Resources {
		if r.leases && res.TTL > 0 {
			n += len(res.frame.lead(r.form, res.TTL)) + len(res.frame.wrapped())
		} else {
			n += len(res.frame.in(r.form))
		}
	}
	for _, res := range r.Heartbeats {
		n += len(heartbeat(r.form, res.Name, r.beatVersion(res), res.TTL))
	}
	return n
}

// beatVersion is what a client compares a heartbeat by: in the state of the world it knows no version
// but that of a whole response.
func (r *Response) beatVersion(res *Resource) string {
	if r.form == Delta {
		return res.Version
	}
	return r.Version
}

// tail is all of the message but its resources.
func (r *Response) tail() []byte {
	b := make([]byte, 0, r.tailSize())
	b = appendText(b, responseVersion, r.Version)
	b = appendText(b, responseTypeURL, r.Type.URL)
	b = appendText(b, responseNonce, r.Nonce)
	if r.form == Delta {
		for _, name := range r.Removed {
			b = appendText(b, deltaRemoved, name)
		}
	}
	if n := textSize(controlPlaneIdentifier, r.controlPlane); n > 0 {
		b = appendHead(b, r.controlPlaneField(), n)
		b = appendText(b, controlPlaneIdentifier, r.controlPlane)
	}
	return b
}

func (r *Response) controlPlaneField() protowire.Number {
	if r.form == Delta {
		return deltaControlPlane
	}
	return sotwControlPlane
}

func (r *Response) tailSize() int {
	n := textSize(responseVersion, r.Version) + textSize(responseTypeURL, r.Type.URL) + textSize(responseNonce, r.Nonce)
	if r.form == Delta {
		for _, name := range r.Removed {
			n += textSize(deltaRemoved, name)
		}
	}
	if m := textSize(controlPlaneIdentifier, r.controlPlane); m > 0 {
		n += fieldSize(r.controlPlaneField(), m)
	}
	return n
}
