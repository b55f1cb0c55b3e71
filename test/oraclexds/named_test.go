package oraclexds_test

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// named are the resources that a message, or what is packed in it, has the proxy ask for: names by type.
func named(m protoreflect.Message) map[string][]string {
	found := map[string][]string{}
	visit(m, func(m proto.Message) {
		switch m := m.(type) {
		case *hcmv3.Rds:
			found[routeType] = append(found[routeType], m.GetRouteConfigName())
		case *tlsv3.SdsSecretConfig:
			if m.GetSdsConfig() != nil {
				found[secretType] = append(found[secretType], m.GetName())
			}
		case *hcmv3.HttpFilter:
			if m.GetConfigDiscovery() != nil {
				found[filterType] = append(found[filterType], m.GetName())
			}
		case networkFilter:
			if m.GetConfigDiscovery() != nil {
				found[filterType] = append(found[filterType], m.GetName())
			}
		}
	})
	return found
}

// networkFilter is a filter of a listener, or of one of its chains.
type networkFilter interface {
	GetName() string
	GetConfigDiscovery() *corev3.ExtensionConfigSource
}

// visit calls f for a message and all in it, packed ones too.
func visit(m protoreflect.Message, f func(proto.Message)) {
	f(m.Interface())
	if packed, ok := m.Interface().(*anypb.Any); ok {
		if inner, err := packed.UnmarshalNew(); err == nil {
			visit(inner.ProtoReflect(), f)
		}
		return
	}
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsMap():
			if field.MapValue().Message() != nil {
				value.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					visit(v.Message(), f)
					return true
				})
			}
		case field.IsList():
			if field.Message() != nil {
				for i := range value.List().Len() {
					visit(value.List().Get(i).Message(), f)
				}
			}
		case field.Message() != nil:
			visit(value.Message(), f)
		}
		return true
	})
}
