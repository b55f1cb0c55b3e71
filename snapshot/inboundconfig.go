package snapshot

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"

	"github.com/catenary-mesh/catenary/chain"
)

// InboundConfig is how a sidecar serves its service. It is comparable; unset fields are zero.
type InboundConfig struct {
	// Protocol is in lower case.
	Protocol    string
	BindAddress string
	BindPort    int

	ConnectTimeout              time.Duration
	RequestTimeout, IdleTimeout Timeout
	MaxConnections              uint32
	// Balance is the only way there is, exact_balance.
	Balance             string
	MaxRequestHeadersKB uint32
}

// exactBalance is the way of balancing connections that there is.
const exactBalance = "exact_balance"

func (c InboundConfig) balanced() bool { return c.Balance == exactBalance }

// or returns c with what it leaves unset taken from d. A zero counts as unset where d says more, as it does
// when Consul merges.
func (c InboundConfig) or(d InboundConfig) InboundConfig {
	use(&c.Protocol, d.Protocol)
	use(&c.BindAddress, d.BindAddress)
	use(&c.BindPort, d.BindPort)
	use(&c.ConnectTimeout, d.ConnectTimeout)
	c.RequestTimeout = c.RequestTimeout.or(d.RequestTimeout)
	c.IdleTimeout = c.IdleTimeout.or(d.IdleTimeout)
	use(&c.MaxConnections, d.MaxConnections)
	use(&c.Balance, d.Balance)
	use(&c.MaxRequestHeadersKB, d.MaxRequestHeadersKB)
	return c
}

func use[T comparable](field *T, otherwise T) {
	var unset T
	if *field == unset {
		*field = otherwise
	}
}

func (t Timeout) or(d Timeout) Timeout {
	if t.Value == 0 && d.Set {
		return d
	}
	return t
}

// fromServiceDefaults is what the defaults of a service say of its sidecars.
func fromServiceDefaults(d *chain.ServiceDefaults) InboundConfig {
	c := InboundConfig{Protocol: strings.ToLower(d.Protocol), Balance: d.BalanceInboundConnections}
	if d.MaxInboundConnections > 0 {
		c.MaxConnections = uint32(min(d.MaxInboundConnections, math.MaxUint32))
	}
	if d.LocalConnectTimeoutMs > 0 {
		c.ConnectTimeout = milliseconds(min(float64(d.LocalConnectTimeoutMs), maxMilliseconds))
	}
	if d.LocalRequestTimeoutMs > 0 {
		c.RequestTimeout = Timeout{Set: true, Value: milliseconds(min(float64(d.LocalRequestTimeoutMs), maxMilliseconds))}
	}
	if d.MaxRequestHeadersKB != nil && *d.MaxRequestHeadersKB <= maxHeadersKB {
		c.MaxRequestHeadersKB = *d.MaxRequestHeadersKB
	}
	return c
}

const (
	maxMilliseconds = 1 << 40 // some 35 years
	maxHeadersKB    = 8192    // Envoy refuses more
)

// inboundFields are the fields of a proxy's free-form configuration that are about what comes in. Values are
// weakly typed: "5000" is as good as 5000.
var inboundFields = map[string]func(c *InboundConfig, value any) error{
	"protocol": func(c *InboundConfig, value any) (err error) {
		c.Protocol, err = word(value)
		c.Protocol = strings.ToLower(c.Protocol)
		return err
	},
	"bind_address": func(c *InboundConfig, value any) (err error) {
		c.BindAddress, err = word(value)
		return err
	},
	"bind_port": func(c *InboundConfig, value any) error { return number(&c.BindPort, value, 0, math.MaxUint16) },
	"local_connect_timeout_ms": func(c *InboundConfig, value any) error {
		return duration(&c.ConnectTimeout, value)
	},
	"local_request_timeout_ms": func(c *InboundConfig, value any) error { return c.RequestTimeout.set(value) },
	"local_idle_timeout_ms":    func(c *InboundConfig, value any) error { return c.IdleTimeout.set(value) },
	"max_inbound_connections": func(c *InboundConfig, value any) error {
		return number(&c.MaxConnections, value, 0, math.MaxUint32)
	},
	"balance_inbound_connections": func(c *InboundConfig, value any) error {
		way, err := word(value)
		if err == nil && way != "" && way != exactBalance {
			err = fmt.Errorf("%q is not %s", way, exactBalance)
		}
		if err == nil {
			c.Balance = way
		}
		return err
	},
	"max_request_headers_kb": func(c *InboundConfig, value any) error {
		return number(&c.MaxRequestHeadersKB, value, 0, maxHeadersKB)
	},
}

// fromProxyConfig is what a proxy's free-form configuration says. The notes are on what of it does not fit: it
// counts as unset, and the rest stands. Consul minds the underscores of a key, and not its letters' case.
func fromProxyConfig(config map[string]any) (c InboundConfig, notes []string) {
	for _, key := range slices.Sorted(maps.Keys(config)) {
		set, known := inboundFields[strings.ToLower(key)]
		switch {
		case known:
			if err := set(&c, config[key]); err != nil {
				notes = append(notes, fmt.Sprintf("the sidecar's %s is ignored: %v", key, err))
			}
		case unread(key) != "":
			notes = append(notes, fmt.Sprintf("the sidecar's %s is ignored: %s", key, unread(key)))
		}
	}
	return c, notes
}

// unread says why a key that looks as if it meant something does not; empty when it does not look so.
func unread(key string) string {
	for _, field := range slices.Sorted(maps.Keys(inboundFields)) {
		if sameKey(key, field) {
			return "write " + field
		}
	}
	switch lower := strings.ToLower(key); lower {
	case "envoy_public_listener_json", "envoy_local_cluster_json", "envoy_listener_tracing_json":
		return "replacing what is made for Envoy is not supported"
	}
	return ""
}

func word(value any) (string, error) {
	var text string
	if err := mapstructure.WeakDecode(value, &text); err != nil {
		return "", fmt.Errorf("want text, not a %T", value)
	}
	return text, nil
}

// number sets a field to a whole number within bounds, or leaves it.
func number[T int | uint32](field *T, value any, least, most float64) error {
	var n float64
	err := mapstructure.WeakDecode(value, &n)
	if err != nil || n != n || n < least || n > most {
		return fmt.Errorf("%v is not a number from %.0f to %.0f", shown(value), least, most)
	}
	*field = T(n)
	return nil
}

// shown is a value as a message quotes it.
func shown(value any) string {
	switch value.(type) {
	case map[string]any, []any:
		return fmt.Sprintf("a %T", value)
	}
	text := fmt.Sprintf("%q", fmt.Sprint(value))
	if len(text) > 40 {
		text = text[:40] + "..."
	}
	return text
}

func duration(field *time.Duration, value any) error {
	var ms int
	if err := number(&ms, value, 0, maxMilliseconds); err != nil {
		return err
	}
	*field = milliseconds(float64(ms))
	return nil
}

func milliseconds(n float64) time.Duration { return time.Duration(n) * time.Millisecond }

func (t *Timeout) set(value any) error {
	if err := duration(&t.Value, value); err != nil {
		return err
	}
	t.Set = true
	return nil
}
