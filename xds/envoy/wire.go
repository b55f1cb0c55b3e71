package envoy

import "google.golang.org/protobuf/encoding/protowire"

// The parts of the protobuf wire format that [encodeEndpoints] needs. All field numbers are below 16,
// so that a tag is one byte.

// messageSize is the size of a field that holds a message of n bytes.
func messageSize(n int) int { return 1 + protowire.SizeBytes(n) }

// appendMessage appends what goes before the n bytes of a message.
func appendMessage(b []byte, field protowire.Number, n int) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendVarint(b, uint64(n))
}

// stringSize is the size of a field that holds a string; an empty one is left out.
func stringSize(s string) int {
	if s == "" {
		return 0
	}
	return messageSize(len(s))
}

func appendString(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return append(appendMessage(b, field, len(s)), s...)
}

// valueSize is the size of a UInt32Value.
func valueSize(v uint32) int {
	if v == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(uint64(v))
}

// appendValue appends a field that holds a UInt32Value.
func appendValue(b []byte, field protowire.Number, v uint32) []byte {
	b = appendMessage(b, field, valueSize(v))
	if v == 0 {
		return b
	}
	return appendVarint(b, 1, uint64(v))
}

func appendVarint(b []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}
