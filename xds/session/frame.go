package session

import "google.golang.org/protobuf/encoding/protowire"

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

	anyTypeURL protowire.Number = 1
	anyValue   protowire.Number = 2
)

// frame is one resource as a whole field of a response.
type frame struct {
	// delta is the field as the incremental form has it: a wrapped resource, its Any last.
	delta []byte
	// any is where in it the field begins as the state of the world has it.
	any int
}

func newFrame(t *Type, name, version string, body []byte) frame {
	packed := textSize(anyTypeURL, t.URL) + fieldSize(anyValue, len(body))
	wrapped := textSize(resourceName, name) + textSize(resourceVersion, version) + fieldSize(resourceAny, packed)
	b := make([]byte, 0, fieldSize(responseItem, wrapped))
	b = appendHead(b, responseItem, wrapped)
	b = appendText(b, resourceName, name)
	b = appendText(b, resourceVersion, version)
	f := frame{any: len(b)}
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
