package server_test

import (
	"fmt"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protowire"
)

// rawCodec sends bytes as they are, and receives them.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) ([]byte, error) { return v.([]byte), nil }

func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = slices.Clone(data)
	return nil
}

// told is what a checker was told to probe, as far as it is reported on.
type told []toldCluster

type toldCluster struct {
	name       []byte
	localities []toldLocality
}

type toldLocality struct {
	locality  []byte
	endpoints []toldEndpoint
}

type toldEndpoint struct {
	address []byte // the message
	port    uint32
}

// each calls f for every field of bytes with the number, and for every number with number 0.
func each(raw []byte, f func(n protowire.Number, value []byte, number uint64)) error {
	for len(raw) > 0 {
		n, kind, size := protowire.ConsumeTag(raw)
		if size < 0 {
			return protowire.ParseError(size)
		}
		raw = raw[size:]
		var value []byte
		var number uint64
		switch kind {
		case protowire.BytesType:
			value, size = protowire.ConsumeBytes(raw)
		case protowire.VarintType:
			number, size = protowire.ConsumeVarint(raw)
		default:
			size = protowire.ConsumeFieldValue(n, kind, raw)
		}
		if size < 0 {
			return protowire.ParseError(size)
		}
		raw = raw[size:]
		f(n, value, number)
	}
	return nil
}

// readSpecifier reads a HealthCheckSpecifier, which the result shares its bytes with.
func readSpecifier(raw []byte) (told, error) {
	var spec told
	var failed error
	down := func(raw []byte, f func(n protowire.Number, value []byte, number uint64)) {
		if err := each(raw, f); err != nil {
			failed = fmt.Errorf("a specifier that cannot be read: %w", err)
		}
	}
	endpoint := func(raw []byte) (e toldEndpoint) {
		down(raw, func(n protowire.Number, value []byte, _ uint64) {
			if n != 1 { // Endpoint.address
				return
			}
			e.address = value
			down(value, func(_ protowire.Number, socket []byte, _ uint64) {
				down(socket, func(n protowire.Number, _ []byte, number uint64) {
					if n == 3 { // SocketAddress.port_value
						e.port = uint32(number)
					}
				})
			})
		})
		return e
	}
	down(raw, func(n protowire.Number, cluster []byte, _ uint64) {
		if n != 1 { // HealthCheckSpecifier.cluster_health_checks
			return
		}
		c := toldCluster{}
		down(cluster, func(n protowire.Number, value []byte, _ uint64) {
			switch n {
			case 1: // ClusterHealthCheck.cluster_name
				c.name = value
			case 3: // ClusterHealthCheck.locality_endpoints
				l := toldLocality{}
				down(value, func(n protowire.Number, value []byte, _ uint64) {
					switch n {
					case 1:
						l.locality = value
					case 2:
						l.endpoints = append(l.endpoints, endpoint(value))
					default:
					}
				})
				c.localities = append(c.localities, l)
			default:
			}
		})
		spec = append(spec, c)
	})
	return spec, failed
}

// ports calls f for each endpoint.
func (s told) ports(f func(port int)) {
	for _, c := range s {
		for _, l := range c.localities {
			for _, e := range l.endpoints {
				f(int(e.port))
			}
		}
	}
}

// answered is the metadata of an endpoint that has answered a probe by http with 200.
var answered = encodeStruct("http_status_code", 200)

// report is what an Envoy says of all of it, in both shapes.
func (s told) report(http bool, finds func(port uint32) corev3.HealthStatus) []byte {
	var body, flat, cluster, locality, one []byte
	for _, c := range s {
		cluster = protowire.AppendBytes(protowire.AppendTag(cluster[:0], 1, protowire.BytesType), c.name)
		for _, l := range c.localities {
			locality = protowire.AppendBytes(protowire.AppendTag(locality[:0], 1, protowire.BytesType), l.locality)
			for _, e := range l.endpoints {
				one = e.report(one[:0], http, finds(e.port))
				locality = protowire.AppendBytes(protowire.AppendTag(locality, 2, protowire.BytesType), one)
				flat = protowire.AppendBytes(protowire.AppendTag(flat, 1, protowire.BytesType), one)
			}
			cluster = protowire.AppendBytes(protowire.AppendTag(cluster, 2, protowire.BytesType), locality)
		}
		body = protowire.AppendBytes(protowire.AppendTag(body, 2, protowire.BytesType), cluster)
	}
	out := protowire.AppendTag(nil, 2, protowire.BytesType) // endpoint_health_response
	out = protowire.AppendVarint(out, uint64(len(flat)+len(body)))
	return append(append(out, flat...), body...)
}

func (e toldEndpoint) report(into []byte, http bool, status corev3.HealthStatus) []byte {
	into = protowire.AppendTag(into, 1, protowire.BytesType)
	into = protowire.AppendVarint(into, uint64(1+protowire.SizeBytes(len(e.address))))
	into = protowire.AppendBytes(protowire.AppendTag(into, 1, protowire.BytesType), e.address)
	into = protowire.AppendVarint(protowire.AppendTag(into, 2, protowire.VarintType), uint64(status))
	if http && status == corev3.HealthStatus_HEALTHY {
		into = protowire.AppendBytes(protowire.AppendTag(into, 3, protowire.BytesType), answered)
	}
	return into
}
