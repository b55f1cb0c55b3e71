package hds

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Hello is what a checker says of itself first, as far as it is used: of 61 kB a few words.
type Hello struct {
	NodeID, NodeCluster string
	Region, Zone        string
	// Version is of the build, such as 1.40.0.
	Version string
	// Metadata is the node's, as bytes of a google.protobuf.Struct.
	Metadata []byte
	Can      Capability

	// probesGRPC is false for versions that a grpc probe may end.
	probesGRPC bool
}

// grpcMajor and grpcMinor are the first version of which it is known that a grpc probe does not end it, as
// it does 1.36 (envoy issue 34570): the clusters of health discovery had no HTTP/2.
const (
	grpcMajor = 1
	grpcMinor = 40
)

// Fields of the first message.
const (
	fieldNode       = 1 // HealthCheckRequest.node
	fieldCapability = 2 // HealthCheckRequest.capability
	fieldProtocols  = 1 // Capability.health_check_protocols

	fieldNodeID       = 1 // Node.id
	fieldNodeCluster  = 2
	fieldNodeMetadata = 3
	fieldNodeLocality = 4
	fieldBuildVersion = 8 // Node.user_agent_build_version
	fieldExtensions   = 9

	fieldRegion = 1 // Locality.region
	fieldZone   = 2

	fieldExtensionName     = 1 // Extension.name
	fieldExtensionCategory = 2
	checkerCategory        = "envoy.health_checkers"
)

// Values of Capability.Protocol.
const (
	capabilityHTTP = iota
	capabilityTCP
	capabilityRedis
)

// DecodeHello reads a message, and reports whether it is the first of a stream. It keeps nothing of raw.
func DecodeHello(raw []byte) (h Hello, ok bool, err error) {
	hello, _, err := split(raw)
	if err != nil || hello == nil {
		return h, false, err
	}
	err = fields(hello, func(n protowire.Number, v wireValue) error {
		switch {
		case n == fieldNode && v.isBytes:
			return h.node(v.bytes)
		case n == fieldCapability && v.isBytes:
			return h.capability(v.bytes)
		}
		return nil
	})
	h.Can.GRPC = h.Can.GRPC && h.probesGRPC
	return h, true, err
}

// maxName bounds what is kept of a client's words for itself.
const maxName = 1024

func name(b []byte) string { return strings.ToValidUTF8(string(b[:min(len(b), maxName)]), "?") }

const maxMetadata = 64 << 10

func (h *Hello) node(raw []byte) error {
	return fields(raw, func(n protowire.Number, v wireValue) error {
		if !v.isBytes {
			return nil
		}
		switch n {
		case fieldNodeID:
			h.NodeID = name(v.bytes)
		case fieldNodeCluster:
			h.NodeCluster = name(v.bytes)
		case fieldNodeMetadata:
			if len(v.bytes) <= maxMetadata {
				h.Metadata = slices.Clone(v.bytes)
			}
		case fieldNodeLocality:
			return h.locality(v.bytes)
		case fieldBuildVersion:
			return h.version(v.bytes)
		case fieldExtensions:
			return h.extension(v.bytes)
		default:
		}
		return nil
	})
}

func (h *Hello) locality(raw []byte) error {
	return fields(raw, func(n protowire.Number, v wireValue) error {
		switch {
		case n == fieldRegion && v.isBytes:
			h.Region = name(v.bytes)
		case n == fieldZone && v.isBytes:
			h.Zone = name(v.bytes)
		}
		return nil
	})
}

// capability reads what an old Envoy says it can do; those of today always say http and tcp, and what else
// they can is among their extensions.
func (h *Hello) capability(raw []byte) error {
	add := func(p uint64) {
		switch p {
		case capabilityHTTP:
			h.Can.HTTP = true
		case capabilityTCP:
			h.Can.TCP = true
		case capabilityRedis:
			h.Can.Redis = true
		}
	}
	return fields(raw, func(n protowire.Number, v wireValue) error {
		if n != fieldProtocols {
			return nil
		}
		if v.isNumber {
			add(v.number)
		}
		for packed := v.bytes; len(packed) > 0; {
			p, size := protowire.ConsumeVarint(packed)
			if size < 0 {
				return errReport
			}
			add(p)
			packed = packed[size:]
		}
		return nil
	})
}

// version reads envoy.config.core.v3.BuildVersion, whose first field is major, minor and patch.
func (h *Hello) version(raw []byte) error {
	var parts [4]uint64
	err := fields(raw, func(n protowire.Number, v wireValue) error {
		if n != 1 || !v.isBytes {
			return nil
		}
		return fields(v.bytes, func(n protowire.Number, v wireValue) error {
			if v.isNumber && int(n) < len(parts) {
				parts[n] = v.number
			}
			return nil
		})
	})
	h.Version = fmt.Sprintf("%d.%d.%d", parts[1], parts[2], parts[3])
	h.probesGRPC = parts[1] > grpcMajor || (parts[1] == grpcMajor && parts[2] >= grpcMinor)
	return err
}

func (h *Hello) extension(raw []byte) error {
	var extension, category string
	err := fields(raw, func(n protowire.Number, v wireValue) error {
		switch {
		case n == fieldExtensionName && v.isBytes && len(v.bytes) < maxName:
			extension = known(v.bytes)
		case n == fieldExtensionCategory && v.isBytes && string(v.bytes) == checkerCategory:
			category = checkerCategory
		}
		return nil
	})
	if category == "" {
		return err
	}
	switch extension {
	case "envoy.health_checkers.http":
		h.Can.HTTP = true
	case "envoy.health_checkers.tcp":
		h.Can.TCP = true
	case "envoy.health_checkers.grpc":
		h.Can.GRPC = true
	case "envoy.health_checkers.redis":
		h.Can.Redis = true
	}
	// An Envoy that lists its checkers is of a version that matches transport sockets in health checks.
	h.Can.TLS = true
	return err
}

// known spares an allocation for the 500 extensions that are no checkers.
func known(b []byte) string {
	if !strings.HasPrefix(string(b), checkerCategory) {
		return ""
	}
	return string(b)
}
