package chain

import (
	"fmt"
	"strconv"
	"strings"
)

const protocolTCP = "tcp"

// IsLayer7 reports whether routers and splitters can act on a protocol. The protocol is lower-case:
// an override in capitals does not count, in Consul neither.
func IsLayer7(protocol string) bool {
	return protocol == "http" || protocol == "http2" || protocol == "grpc"
}

// protocolOf is the protocol of a service with these defaults. Defaults that name no protocol mean
// tcp, and hide the protocol of proxy-defaults.
func (c *compiler) protocolOf(defaults *ServiceDefaults) string {
	protocol := ""
	switch {
	case defaults != nil:
		protocol = defaults.Protocol
	case c.proxy != nil:
		protocol, _ = weakString(c.proxy.Config["protocol"])
	}
	return strings.ToLower(orDefault(protocol, protocolTCP))
}

// weakString reads a value of an opaque configuration as Consul does, which takes numbers, booleans
// and lists of one for strings.
func weakString(v any) (string, bool) {
	switch v := v.(type) {
	case nil:
		return "", true
	case string:
		return v, true
	case bool:
		if v {
			return "1", true
		}
		return "0", true
	case int:
		return strconv.Itoa(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	case []any:
		if len(v) == 1 {
			return weakString(v[0])
		}
	}
	return "", false
}

// recordProtocol makes the protocol of a service count: all of a chain must be equal.
func (c *compiler) recordProtocol(s *service, name string) *Problem {
	if c.protocol == "" {
		c.protocol = s.protocol
	}
	if c.protocol == s.protocol {
		return nil
	}
	return c.problem(CodeProtocolMix, c.protocolSource(s), "Protocol", fmt.Sprintf(
		"discovery chain %q uses inconsistent protocols; service %q has %q which is not %q",
		c.req.Service, name, s.protocol, c.protocol))
}

// checkProtocol refuses routers and splitters below layer 7.
func (c *compiler) checkProtocol(start step) *Problem {
	if IsLayer7(c.protocol) || start.fork == nil {
		return nil
	}
	return c.problem(CodeProtocolTooLow, c.protocolSource(c.service(c.req.Service)), "Protocol", fmt.Sprintf(
		"discovery chain %q uses a protocol %q that does not permit advanced routing or splitting behavior",
		c.req.Service, c.protocol))
}

// stripsLayer7 reports whether the protocol that the downstream wants leaves no room for routers and
// splitters.
func (c *compiler) stripsLayer7() bool {
	return c.req.Overrides.Protocol != "" && !IsLayer7(c.req.Overrides.Protocol)
}

// overrideProtocol relabels the chain; stripped says that nodes were left out for the protocol's sake.
func (c *compiler) overrideProtocol(stripped bool) {
	want := c.req.Overrides.Protocol
	if want == "" || (want == c.protocol && !stripped) {
		return
	}
	c.protocol = want
	c.customized.protocol = want
}
