package snapshot

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// UpstreamConfig is how a client treats one upstream. It is comparable and so part of keys.
type UpstreamConfig struct {
	Protocol         string
	ConnectTimeoutMs int
	MeshGateway      chain.MeshGatewayMode
	Limits           Limits
	Outlier          Outlier
	// ExactBalance spreads connections evenly over Envoy's threads.
	ExactBalance bool

	// ignored says what of the configuration has no effect, and why: one thing a line.
	ignored string
}

// or returns c with what it leaves unset taken from d.
func (c UpstreamConfig) or(d UpstreamConfig) UpstreamConfig {
	use(&c.Protocol, d.Protocol)
	use(&c.ConnectTimeoutMs, d.ConnectTimeoutMs)
	use(&c.MeshGateway, d.MeshGateway)
	use(&c.Limits, d.Limits)
	use(&c.Outlier, d.Outlier)
	use(&c.ExactBalance, d.ExactBalance)
	use(&c.ignored, d.ignored)
	return c
}

// notes are what is to be told of what is ignored.
func (c UpstreamConfig) notes() []string {
	if c.ignored == "" {
		return nil
	}
	return strings.Split(c.ignored, "\n")
}

const hatch = "%s is ignored: replacing what is made for Envoy is not supported"

func fromEntry(u *chain.UpstreamConfig) UpstreamConfig {
	c := UpstreamConfig{
		Protocol:         strings.ToLower(u.Protocol),
		ConnectTimeoutMs: max(u.ConnectTimeoutMs, 0),
		MeshGateway:      u.MeshGateway.Mode,
		ExactBalance:     u.BalanceOutboundConnections == exactBalance,
	}
	if l := u.Limits; l != nil {
		c.Limits = Limits{
			MaxConnections:        limit(l.MaxConnections),
			MaxPendingRequests:    limit(l.MaxPendingRequests),
			MaxConcurrentRequests: limit(l.MaxConcurrentRequests),
		}
	}
	if p := u.PassiveHealthCheck; p != nil {
		c.Outlier = Outlier{
			IntervalMs:              p.Interval.Milliseconds(),
			MaxFailures:             p.MaxFailures,
			EnforcingConsecutive5xx: limit(p.EnforcingConsecutive5xx),
			MaxEjectionPercent:      limit(p.MaxEjectionPercent),
		}
		if p.BaseEjectionTime != nil {
			c.Outlier.BaseEjectionMs = p.BaseEjectionTime.Milliseconds()
		}
	}
	var ignored []string
	if u.EnvoyListenerJSON != "" {
		ignored = append(ignored, fmt.Sprintf(hatch, "envoy_listener_json"))
	}
	if u.EnvoyClusterJSON != "" {
		ignored = append(ignored, fmt.Sprintf(hatch, "envoy_cluster_json"))
	}
	c.ignored = strings.Join(ignored, "\n")
	return c
}

// opaqueConfig is the part of a registered upstream's free-form configuration that is understood. Consul takes
// strings for numbers. It minds the underscores of the keys of connect_timeout_ms and
// balance_outbound_connections, and of no other.
type opaqueConfig struct {
	Protocol         string `mapstructure:"protocol"`
	ConnectTimeoutMs int    `mapstructure:"connect_timeout_ms"`
	Limits           struct {
		MaxConnections        *int `mapstructure:"max_connections"`
		MaxPendingRequests    *int `mapstructure:"max_pending_requests"`
		MaxConcurrentRequests *int `mapstructure:"max_concurrent_requests"`
	} `mapstructure:"limits"`
	PassiveHealthCheck struct {
		Interval                time.Duration  `mapstructure:"interval"`
		MaxFailures             uint32         `mapstructure:"max_failures"`
		EnforcingConsecutive5xx *uint32        `mapstructure:"enforcing_consecutive_5xx"`
		MaxEjectionPercent      *uint32        `mapstructure:"max_ejection_percent"`
		BaseEjectionTime        *time.Duration `mapstructure:"base_ejection_time"`
	} `mapstructure:"passive_health_check"`
	BalanceOutboundConnections string `mapstructure:"balance_outbound_connections"`
	EnvoyListenerJSON          string `mapstructure:"envoy_listener_json"`
	EnvoyClusterJSON           string `mapstructure:"envoy_cluster_json"`
}

// decodeUpstream reads the free-form configuration of an upstream. What does not fit its field is named and
// counts as unset, where Consul would serve the sidecar nothing at all.
func decodeUpstream(config map[string]any) (o opaqueConfig, ignored []string) {
	dec, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
		Result: &o, WeaklyTypedInput: true,
		MatchName: func(key, field string) bool {
			return strings.EqualFold(key, field) || spelledAnyhow(field) && sameKey(key, field)
		},
		DecodeHook: mapstructure.StringToTimeDurationHookFunc(),
	})
	if err == nil {
		err = dec.Decode(config) // the fields that fit are set all the same
	}
	if err != nil {
		ignored = append(ignored, oneLine(err))
	}
	for _, field := range []string{"connect_timeout_ms", "balance_outbound_connections"} {
		for key := range config {
			if sameKey(key, field) && !strings.EqualFold(key, field) {
				ignored = append(ignored, fmt.Sprintf("%s is ignored: write %s", key, field))
			}
		}
	}
	if _, ok := setting(config, "mesh_gateway"); ok {
		ignored = append(ignored, "mesh_gateway within config is ignored: write it beside config")
	}
	slices.Sort(ignored)
	return o, ignored
}

func spelledAnyhow(field string) bool {
	return field != "connect_timeout_ms" && field != "balance_outbound_connections"
}

// oneLine is what does not fit, without line breaks and bounded.
func oneLine(err error) string {
	const most = 300
	text := strings.Join(strings.Fields(err.Error()), " ")
	text = strings.TrimPrefix(text, "decoding failed due to the following error(s): ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return "what does not fit is ignored: " + text
}

// fromRegistration is what a sidecar's registration says of one of its upstreams.
func fromRegistration(u facts.Upstream) UpstreamConfig {
	if len(u.Config) == 0 {
		return UpstreamConfig{MeshGateway: u.MeshGateway.Mode}
	}
	o, ignored := decodeUpstream(u.Config)
	entry := &chain.UpstreamConfig{
		Protocol: o.Protocol, ConnectTimeoutMs: o.ConnectTimeoutMs, MeshGateway: u.MeshGateway,
		BalanceOutboundConnections: o.BalanceOutboundConnections,
		EnvoyListenerJSON:          o.EnvoyListenerJSON, EnvoyClusterJSON: o.EnvoyClusterJSON,
	}
	entry.Limits = &chain.UpstreamLimits{
		MaxConnections: unsigned(o.Limits.MaxConnections), MaxPendingRequests: unsigned(o.Limits.MaxPendingRequests),
		MaxConcurrentRequests: unsigned(o.Limits.MaxConcurrentRequests),
	}
	entry.PassiveHealthCheck = &chain.PassiveHealthCheck{
		Interval: o.PassiveHealthCheck.Interval, MaxFailures: o.PassiveHealthCheck.MaxFailures,
		EnforcingConsecutive5xx: o.PassiveHealthCheck.EnforcingConsecutive5xx,
		MaxEjectionPercent:      o.PassiveHealthCheck.MaxEjectionPercent,
		BaseEjectionTime:        o.PassiveHealthCheck.BaseEjectionTime,
	}
	c := fromEntry(entry)
	if c.ignored != "" {
		ignored = append(ignored, c.ignored)
	}
	c.ignored = strings.Join(ignored, "\n")
	return c
}

// unsigned is a limit as Consul takes it from a registration: one below 0 is so large that there is none.
func unsigned(v *int) *int {
	if v == nil || *v >= 0 {
		return v
	}
	none := math.MaxUint32
	return &none
}

func sameKey(key, field string) bool {
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "_", "")) }
	return plain(key) == plain(field)
}

// limit takes what Consul's limits allow; a negative one counts as unset.
func limit[T int | uint32](v *T) Limit {
	if v == nil || int64(*v) < 0 {
		return Limit{}
	}
	return Limit{Set: true, Value: uint32(min(int64(*v), math.MaxUint32))}
}

// maxSocketMode is the largest mode that Envoy takes.
const maxSocketMode = 0o777

// socketMode reads the mode of a socket as Consul does: in octal where it begins with 0.
func socketMode(text string) (mode uint32, ok bool) {
	if text == "" {
		return 0, true
	}
	n, err := strconv.ParseUint(text, 0, 32)
	if err != nil || n > maxSocketMode {
		return 0, false
	}
	return uint32(n), true
}
