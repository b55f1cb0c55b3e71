package xds

import (
	"github.com/cncf/xds/go/udpa/annotations"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	tokens "github.com/catenary-mesh/catenary/internal/identity"
)

// redacted is a secret without what is secret in it: every text in fields that Envoy's description of the
// message marks as sensitive. Of one that cannot be read, and of one of a kind that is not known, there
// is the name.
func redacted(name string, body []byte) *anypb.Any {
	secret := &tlsv3.Secret{}
	if err := proto.Unmarshal(body, secret); err != nil || len(secret.ProtoReflect().GetUnknown()) > 0 {
		secret = &tlsv3.Secret{Name: name}
	}
	redact(secret.ProtoReflect(), false)
	out, err := anypb.New(secret)
	if err != nil {
		return &anypb.Any{TypeUrl: "type.googleapis.com/" + string(secret.ProtoReflect().Descriptor().FullName())}
	}
	return out
}

// redact replaces what is sensitive in a message, all of it if the message itself is.
func redact(m protoreflect.Message, all bool) {
	m.SetUnknown(nil)
	if packed, ok := m.Interface().(*anypb.Any); ok {
		packed.Reset() // what is in it is nobody's to know
		return
	}
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		all := all || isSensitive(field)
		switch {
		case field.IsMap():
			redactMap(m, field, value.Map(), all)
		case field.IsList():
			redactList(field, value.List(), all)
		case field.Message() != nil:
			redact(value.Message(), all)
		case all:
			cover(field, func(v protoreflect.Value) { m.Set(field, v) }, func() { m.Clear(field) })
		}
		return true
	})
}

func isSensitive(field protoreflect.FieldDescriptor) bool {
	sensitive, ok := proto.GetExtension(field.Options(), annotations.E_Sensitive).(bool)
	return ok && sensitive
}

func redactList(field protoreflect.FieldDescriptor, list protoreflect.List, all bool) {
	for i := range list.Len() {
		switch {
		case field.Message() != nil:
			redact(list.Get(i).Message(), all)
		case all:
			cover(field, func(v protoreflect.Value) { list.Set(i, v) }, func() { list.Set(i, field.Default()) })
		}
	}
}

// redactMap drops a map that is sensitive: its keys may be, too.
func redactMap(m protoreflect.Message, field protoreflect.FieldDescriptor, entries protoreflect.Map, all bool) {
	if all {
		m.Clear(field)
		return
	}
	if field.MapValue().Message() == nil {
		return
	}
	entries.Range(func(_ protoreflect.MapKey, value protoreflect.Value) bool {
		redact(value.Message(), false)
		return true
	})
}

// cover replaces a text or bytes, and clears what is neither.
func cover(field protoreflect.FieldDescriptor, set func(protoreflect.Value), clear func()) {
	switch field.Kind() {
	case protoreflect.StringKind:
		set(protoreflect.ValueOfString(tokens.Redacted))
	case protoreflect.BytesKind:
		set(protoreflect.ValueOfBytes([]byte(tokens.Redacted)))
	default:
		clear()
	}
}
