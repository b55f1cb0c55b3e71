package session

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of the discovery messages. The resources have the same one in both forms, and it is
// also that of the Any within a wrapped resource: one run of bytes serves all three.
const (
	responseVersion protowire.Number = 1
	responseItem    protowire.Number = 2
	responseTypeURL protowire.Number = 4
	responseNonce   protowire.Number = 5

	sotwControlPlane  protowire.Number = 6
	deltaRemoved      protowire.Number = 6
	deltaControlPlane protowire.Number = 7

	controlPlaneIdentifier protowire.Number = 1

	resourceVersion protowire.Number = 1
	resourceAny     protowire.Number = 2
	resourceName    protowire.Number = 3
	resourceTTL     protowire.Number = 6

	durationSeconds protowire.Number = 1
	durationNanos   protowire.Number = 2

	anyTypeURL protowire.Number = 1
	anyValue   protowire.Number = 2
)

// frame is one resource as a whole field of a response.
type frame struct {
	// delta is the field as the incremental form has it: a wrapped resource, its Any last.
	delta []byte
	// inner is where in it the wrapped resource begins, and any where the field begins as the state of
	// the world has it.
	inner, any int
}

func newFrame(t *Type, name, version string, body []byte) frame {
	packed := textSize(anyTypeURL, t.URL) + fieldSize(anyValue, len(body))
	wrapped := textSize(resourceName, name) + textSize(resourceVersion, version) + fieldSize(resourceAny, packed)
	b := make([]byte, 0, fieldSize(responseItem, wrapped))
	b = appendHead(b, responseItem, wrapped)
	f := frame{inner: len(b)}
	b = appendText(b, resourceName, name)
	b = appendText(b, resourceVersion, version)
	f.any = len(b)
	b = appendHead(b, resourceAny, packed)
	b = appendText(b, anyTypeURL, t.URL)
	b = appendHead(b, anyValue, len(body))
	f.delta = append(b, body...)
	return f
}

// body returns the last n bytes: the serialized message.
func (f frame) body(n int) []byte { return f.delta[len(f.delta)-n : len(f.delta) : len(f.delta)] }

// in returns the field in a form.
func (f frame) in(form Form) []byte {
	if form == Delta {
		return f.delta
	}
	return f.delta[f.any:]
}

// wrapped returns the serialized Resource message, without a TTL.
func (f frame) wrapped() []byte { return f.delta[f.inner:] }

// wrapperURL is the type of a resource that is wrapped in the state of the world.
const wrapperURL = "type.googleapis.com/envoy.service.discovery.v3.Resource"

// lead returns what precedes the wrapped resource to make it a field of a response with a TTL.
func (f frame) lead(form Form, ttl time.Duration) []byte {
	lease := appendTTL(nil, ttl)
	return append(appendWrapper(nil, form, len(lease)+len(f.wrapped())), lease...)
}

// heartbeat returns the field of a response that begins a TTL anew.
func heartbeat(form Form, name, version string, ttl time.Duration) []byte {
	beat := appendTTL(appendText(appendText(nil, resourceName, name), resourceVersion, version), ttl)
	return append(appendWrapper(nil, form, len(beat)), beat...)
}

// appendWrapper begins the field of a response that holds a Resource message of n bytes.
func appendWrapper(b []byte, form Form, n int) []byte {
	if form == Delta {
		return appendHead(b, responseItem, n)
	}
	b = appendHead(b, responseItem, textSize(anyTypeURL, wrapperURL)+fieldSize(anyValue, n))
	b = appendText(b, anyTypeURL, wrapperURL)
	return appendHead(b, anyValue, n)
}

func appendTTL(b []byte, ttl time.Duration) []byte {
	var d []byte
	d = appendNumber(d, durationSeconds, uint64(ttl/time.Second))
	if nanos := ttl % time.Second; nanos > 0 {
		d = appendNumber(d, durationNanos, uint64(nanos))
	}
	return append(appendHead(b, resourceTTL, len(d)), d...)
}

func appendNumber(b []byte, num protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), n)
}

// fieldSize is the size of a field with a value of n bytes.
func fieldSize(num protowire.Number, n int) int {
	return protowire.SizeTag(num) + protowire.SizeBytes(n)
}

// textSize is the size of a text field, which is left out when it is empty.
func textSize(num protowire.Number, text string) int {
	if text == "" {
		return 0
	}
	return fieldSize(num, len(text))
}

// appendHead begins a field whose value has n bytes.
func appendHead(b []byte, num protowire.Number, n int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.BytesType), uint64(n))
}

func appendText(b []byte, num protowire.Number, text string) []byte {
	if text == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), text)
}
