package snapshot

import (
	"math"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// central is what the service-defaults of a client's service say of its upstreams.
type central struct{ entry *chain.UpstreamConfiguration }

func centralConfig(e chain.Entries, service string) central {
	if d, ok := e.Entry(chain.KindServiceDefaults, service).(*chain.ServiceDefaults); ok {
		return central{d.UpstreamConfig}
	}
	return central{}
}

// of is what they say of one upstream: the override of that name, and under it the defaults.
func (c central) of(upstream string) UpstreamConfig {
	if c.entry == nil {
		return UpstreamConfig{}
	}
	var out UpstreamConfig
	for _, o := range c.entry.Overrides {
		if o != nil && o.Peer == "" && strings.EqualFold(o.Name, upstream) {
			out = fromEntry(o)
			break
		}
	}
	if c.entry.Defaults != nil {
		out = out.or(fromEntry(c.entry.Defaults))
	}
	return out
}

func fromEntry(u *chain.UpstreamConfig) UpstreamConfig {
	c := UpstreamConfig{
		Protocol:         strings.ToLower(u.Protocol),
		ConnectTimeoutMs: u.ConnectTimeoutMs,
		MeshGateway:      u.MeshGateway.Mode,
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
	return c
}

// opaqueConfig is the part of a registered upstream's free-form configuration that is understood.
// Consul accepts both spellings of a key, and strings for numbers.
type opaqueConfig struct {
	Protocol         string `mapstructure:"protocol"`
	ConnectTimeoutMs int    `mapstructure:"connect_timeout_ms"`
	Limits           *struct {
		MaxConnections        *int `mapstructure:"max_connections"`
		MaxPendingRequests    *int `mapstructure:"max_pending_requests"`
		MaxConcurrentRequests *int `mapstructure:"max_concurrent_requests"`
	} `mapstructure:"limits"`
	PassiveHealthCheck *struct {
		Interval                time.Duration  `mapstructure:"interval"`
		MaxFailures             uint32         `mapstructure:"max_failures"`
		EnforcingConsecutive5xx *uint32        `mapstructure:"enforcing_consecutive_5xx"`
		MaxEjectionPercent      *uint32        `mapstructure:"max_ejection_percent"`
		BaseEjectionTime        *time.Duration `mapstructure:"base_ejection_time"`
	} `mapstructure:"passive_health_check"`
}

// fromRegistration is what a sidecar's registration says of one of its upstreams. What does not fit
// its field is ignored, as Consul does.
func fromRegistration(u facts.Upstream) UpstreamConfig {
	if len(u.Config) == 0 {
		return UpstreamConfig{MeshGateway: u.MeshGateway.Mode}
	}
	var o opaqueConfig
	dec, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
		Result: &o, WeaklyTypedInput: true,
		MatchName:  sameKey,
		DecodeHook: mapstructure.StringToTimeDurationHookFunc(),
	})
	if err == nil {
		_ = dec.Decode(u.Config) // the fields that fit are set all the same
	}
	entry := &chain.UpstreamConfig{
		Protocol: o.Protocol, ConnectTimeoutMs: o.ConnectTimeoutMs, MeshGateway: u.MeshGateway,
	}
	if l := o.Limits; l != nil {
		entry.Limits = &chain.UpstreamLimits{
			MaxConnections: l.MaxConnections, MaxPendingRequests: l.MaxPendingRequests,
			MaxConcurrentRequests: l.MaxConcurrentRequests,
		}
	}
	if p := o.PassiveHealthCheck; p != nil {
		entry.PassiveHealthCheck = &chain.PassiveHealthCheck{
			Interval: p.Interval, MaxFailures: p.MaxFailures,
			EnforcingConsecutive5xx: p.EnforcingConsecutive5xx,
			MaxEjectionPercent:      p.MaxEjectionPercent, BaseEjectionTime: p.BaseEjectionTime,
		}
	}
	return fromEntry(entry)
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
