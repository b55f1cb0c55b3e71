package session

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"time"
)

// Resource is one encoded resource, made by [NewResource]. It never changes, and all streams that hold
// it share it and its bytes.
type Resource struct {
	Type *Type
	Name string
	// Version is a hash of the content.
	Version string
	// Body is the serialized message: the value of the Any that carries it.
	Body []byte
	// Refs are what the resource needs to be sent before or with it: for a route or a listener the
	// names of clusters, for a cluster the names of its endpoint resources.
	Refs []string

	// TTL is how long a client that supports it keeps the resource without hearing of it again; zero
	// stands for as long as it lives.
	TTL time.Duration

	// PublishedAt is when the content was first offered; zero when nobody said. It is set before the
	// resource is shared.
	PublishedAt time.Time

	digest digest
	frame  frame
	// What sessions note of a client: that it accepted the resource on this stream, that it may have,
	// that it brought it along from an earlier stream.
	accepted, doubted, kept entry
}

// NewResource encodes a resource. body is its serialized message, which is copied. refs are as in
// [Resource]; a cluster without any has endpoints of its own name.
func NewResource(t *Type, name string, body []byte, refs []string) *Resource {
	sum := sha256.Sum256(body)
	return newResource(t, name, hex.EncodeToString(sum[:8]), body, refs)
}

// WithTTL returns the resource with a time to live, as another version of it.
func (r *Resource) WithTTL(ttl time.Duration) *Resource {
	sum := sha256.Sum256(append([]byte(ttl.String()+"\x00"), r.Body...))
	leased := newResource(r.Type, r.Name, hex.EncodeToString(sum[:8]), r.Body, r.Refs)
	leased.TTL = ttl
	return leased
}

func newResource(t *Type, name, version string, body []byte, refs []string) *Resource {
	if t == clusterType && len(refs) == 0 {
		refs = []string{name}
	}
	f := newFrame(t, name, version, body)
	r := &Resource{
		Type: t, Name: name, Version: version, Body: f.body(len(body)), Refs: refs,
		digest: pair(name, version), frame: f,
	}
	r.accepted = entry{version: version, resource: r, digest: r.digest}
	r.doubted = entry{resource: r, digest: r.digest}
	r.kept = entry{version: version, digest: r.digest}
	return r
}

func (r *Resource) refersTo(name string) bool { return r != nil && slices.Contains(r.Refs, name) }

// State is what the control plane knows of a name.
type State uint8

const (
	// Unknown names are answered when they become known, and not before.
	Unknown State = iota
	// Present names have a resource.
	Present
	// Absent names are known not to exist.
	Absent
)

// String returns the state in lower case.
func (s State) String() string {
	switch s {
	case Unknown:
		return "unknown"
	case Present:
		return "present"
	case Absent:
		return "absent"
	}
	return fmt.Sprintf("state(%d)", s)
}

// Offer is what the client may have at one moment: a consistent view that does not change.
type Offer interface {
	// Lookup returns what is known of a name; the resource is nil unless it is Present.
	Lookup(t *Type, name string) (*Resource, State)
	// Names returns the names a wildcard subscription stands for, sorted. It is called at most once
	// per type and turn, and not modified.
	Names(t *Type) []string
	// Complete reports whether all there is to offer is in it. While it is not, nothing that the
	// client holds is removed.
	Complete() bool
}

// digest is a hash of a set of (name, version) pairs. It does not depend on their order, so that one
// pair can be added or taken away without reading the others.
type digest [2]uint64

func pair(name, version string) digest {
	sum := sha256.Sum256([]byte(name + "\x00" + version))
	return digest{binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16])}
}

func (d digest) plus(other digest) digest  { return digest{d[0] + other[0], d[1] + other[1]} }
func (d digest) minus(other digest) digest { return digest{d[0] - other[0], d[1] - other[1]} }

// String returns the digest as 32 hexadecimal digits.
func (d digest) String() string {
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:8], d[0])
	binary.BigEndian.PutUint64(raw[8:], d[1])
	var text [32]byte
	hex.Encode(text[:], raw[:])
	return string(text[:])
}
