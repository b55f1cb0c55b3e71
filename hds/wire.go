package hds

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// Status is what a report says of an endpoint.
type Status uint8

// What reports say. Envoy 1.40 sends but the first four; NotReported is for an endpoint that a report leaves out.
const (
	NotReported Status = iota
	StatusHealthy
	StatusUnhealthy
	// StatusAnswered is unhealthy with an HTTP status: the endpoint has been probed for certain.
	StatusAnswered
	StatusTimeout
	// StatusOther is any other health, which says nothing.
	StatusOther
)

// Values of envoy.config.core.v3.HealthStatus, which v2 has too.
const (
	wireHealthy   = 1
	wireUnhealthy = 2
	wireTimeout   = 4
)

// errReport is what every malformed message is.
var errReport = errors.New("not a message of health discovery")

// fields calls f for each field of a message until it returns an error. The slices are parts of raw.
func fields(raw []byte, f func(number protowire.Number, value wireValue) error) error {
	for len(raw) > 0 {
		number, kind, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return fmt.Errorf("%w: %w", errReport, protowire.ParseError(n))
		}
		raw = raw[n:]
		var v wireValue
		switch kind {
		case protowire.BytesType:
			v.bytes, n = protowire.ConsumeBytes(raw)
			v.isBytes = true
		case protowire.VarintType:
			v.number, n = protowire.ConsumeVarint(raw)
			v.isNumber = true
		case protowire.Fixed64Type:
			v.number, n = protowire.ConsumeFixed64(raw)
			v.isFixed = true
		default:
			n = protowire.ConsumeFieldValue(number, kind, raw)
		}
		if n < 0 {
			return fmt.Errorf("%w: %w", errReport, protowire.ParseError(n))
		}
		raw = raw[n:]
		if err := f(number, v); err != nil {
			return err
		}
	}
	return nil
}

// wireValue is a field's value; one of another wire type than these is none of them.
type wireValue struct {
	bytes    []byte
	number   uint64
	isBytes  bool
	isNumber bool
	isFixed  bool
}

// reported is one endpoint of a report. The slices are parts of the report's bytes.
type reported struct {
	cluster []byte
	address []byte
	port    uint32
	status  Status
	// code is the HTTP status that the endpoint answered with, or 0.
	code uint16
}

// Fields of the messages, which both versions of the protocol number alike.
const (
	fieldHello  = 1 // HealthCheckRequestOrEndpointHealthResponse.health_check_request
	fieldReport = 2 // HealthCheckRequestOrEndpointHealthResponse.endpoint_health_response

	fieldFlat      = 1 // EndpointHealthResponse.endpoints_health
	fieldByCluster = 2 // EndpointHealthResponse.cluster_endpoints_health

	fieldClusterName = 1 // ClusterEndpointsHealth.cluster_name
	fieldLocalities  = 2 // ClusterEndpointsHealth.locality_endpoints_health
	fieldEndpoints   = 2 // LocalityEndpointsHealth.endpoints_health

	fieldEndpoint = 1 // EndpointHealth.endpoint
	fieldStatus   = 2 // EndpointHealth.health_status
	fieldMetadata = 3 // EndpointHealth.health_metadata

	fieldMapKey      = 1 // of an entry of Struct.fields
	fieldMapValue    = 2
	fieldNumberValue = 2 // Value.number_value

	fieldAddress       = 1 // Endpoint.address
	fieldSocket        = 1 // Address.socket_address
	fieldSocketAddress = 2 // SocketAddress.address
	fieldSocketPort    = 3 // SocketAddress.port_value
)

// split tells what a message is: the first of a stream, a report, or neither of them, which is a report on
// nothing: Envoy sends that while it has no duty.
func split(raw []byte) (hello, report []byte, err error) {
	err = fields(raw, func(n protowire.Number, v wireValue) error {
		switch {
		case n == fieldHello && v.isBytes:
			hello, report = v.bytes, nil
		case n == fieldReport && v.isBytes:
			hello, report = nil, v.bytes
		}
		return nil
	})
	return hello, report, err
}

// hasClusters reports whether a report groups its endpoints, as all do but those of v2's first version.
func hasClusters(report []byte) (bool, error) {
	found := false
	err := fields(report, func(n protowire.Number, v wireValue) error {
		found = found || (n == fieldByCluster && v.isBytes)
		return nil
	})
	return found, err
}

// eachGrouped calls f for each endpoint of a report in groups.
func eachGrouped(report []byte, f func(reported) error) error {
	return fields(report, func(n protowire.Number, v wireValue) error {
		if n != fieldByCluster || !v.isBytes {
			return nil
		}
		return eachOfCluster(v.bytes, f)
	})
}

func eachOfCluster(cluster []byte, f func(reported) error) error {
	var name []byte
	err := fields(cluster, func(n protowire.Number, v wireValue) error {
		if n == fieldClusterName && v.isBytes {
			name = v.bytes
		}
		return nil
	})
	if err != nil {
		return err
	}
	return fields(cluster, func(n protowire.Number, v wireValue) error {
		if n != fieldLocalities || !v.isBytes {
			return nil
		}
		return eachEndpoint(v.bytes, fieldEndpoints, func(r reported) error {
			r.cluster = name
			return f(r)
		})
	})
}

// eachEndpoint calls f for each endpoint in a field of a message.
func eachEndpoint(raw []byte, field protowire.Number, f func(reported) error) error {
	return fields(raw, func(n protowire.Number, v wireValue) error {
		if n != field || !v.isBytes {
			return nil
		}
		r, err := decodeEndpoint(v.bytes)
		if err != nil {
			return err
		}
		return f(r)
	})
}

func decodeEndpoint(raw []byte) (reported, error) {
	var r reported
	var health uint64
	err := fields(raw, func(n protowire.Number, v wireValue) error {
		switch {
		case n == fieldEndpoint && v.isBytes:
			return decodeAddress(v.bytes, &r)
		case n == fieldStatus && v.isNumber:
			health = v.number
		case n == fieldMetadata && v.isBytes:
			return decodeCode(v.bytes, &r.code)
		}
		return nil
	})
	switch health {
	case wireHealthy:
		r.status = StatusHealthy
	case wireUnhealthy:
		r.status = StatusUnhealthy
		if r.code != 0 {
			r.status = StatusAnswered
		}
	case wireTimeout:
		r.status = StatusTimeout
	default:
		r.status = StatusOther
	}
	return r, err
}

// decodeCode finds http_status_code in a google.protobuf.Struct.
func decodeCode(raw []byte, code *uint16) error {
	return fields(raw, func(_ protowire.Number, entry wireValue) error {
		if !entry.isBytes {
			return nil
		}
		named := false
		return fields(entry.bytes, func(n protowire.Number, v wireValue) error {
			if n == fieldMapKey && v.isBytes {
				named = string(v.bytes) == "http_status_code"
			}
			if n != fieldMapValue || !v.isBytes || !named {
				return nil
			}
			return fields(v.bytes, func(n protowire.Number, v wireValue) error {
				if f := math.Float64frombits(v.number); n == fieldNumberValue && v.isFixed && f >= minStatus && f <= maxStatus {
					*code = uint16(f)
				}
				return nil
			})
		})
	})
}

func decodeAddress(endpoint []byte, r *reported) error {
	return fields(endpoint, func(n protowire.Number, v wireValue) error {
		if n != fieldAddress || !v.isBytes {
			return nil
		}
		return fields(v.bytes, func(n protowire.Number, v wireValue) error {
			if n != fieldSocket || !v.isBytes {
				return nil
			}
			return fields(v.bytes, func(n protowire.Number, v wireValue) error {
				switch {
				case n == fieldSocketAddress && v.isBytes:
					r.address = v.bytes
				case n == fieldSocketPort && v.isNumber:
					r.port = uint32(v.number)
				}
				return nil
			})
		})
	})
}
