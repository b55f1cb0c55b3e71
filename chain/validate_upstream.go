package chain

import "time"

func (f *findings) upstreams(u *UpstreamConfiguration) {
	for i, o := range u.Overrides {
		path := at("UpstreamConfig.Overrides", i)
		if o == nil {
			o = &UpstreamConfig{}
		}
		switch o.Name {
		case "":
			f.fault(CodeUpstreamName, path+".Name", "an override has the name of the upstream it is for; use Defaults for all")
		case "*":
			f.fault(CodeUpstreamName, path+".Name", "an override is for one upstream; use Defaults for all")
		}
		f.upstream(path, o)
	}
	if d := u.Defaults; d != nil {
		if d.Name != "" {
			f.fault(CodeUpstreamName, "UpstreamConfig.Defaults.Name", "defaults are for every upstream and have no name; use Overrides for one")
		}
		f.upstream("UpstreamConfig.Defaults", d)
	}
}

func (f *findings) upstream(path string, u *UpstreamConfig) {
	f.enterprise(path, "Namespace", u.Namespace, "Partition", u.Partition)
	f.meshGateway(path+".MeshGateway.Mode", u.MeshGateway.Mode)
	f.oneOf(path+".BalanceOutboundConnections", u.BalanceOutboundConnections, "exact_balance")
	if l := u.Limits; l != nil {
		f.limit(path+".Limits.MaxConnections", l.MaxConnections)
		f.limit(path+".Limits.MaxPendingRequests", l.MaxPendingRequests)
		f.limit(path+".Limits.MaxConcurrentRequests", l.MaxConcurrentRequests)
	}
	if p := u.PassiveHealthCheck; p != nil {
		path += ".PassiveHealthCheck"
		f.span(path+".Interval", &p.Interval)
		f.span(path+".BaseEjectionTime", p.BaseEjectionTime)
		f.percentage(path+".EnforcingConsecutive5xx", p.EnforcingConsecutive5xx)
		f.percentage(path+".MaxEjectionPercent", p.MaxEjectionPercent)
	}
}

func (f *findings) limit(field string, n *int) {
	if n != nil && *n < 0 {
		f.fault(CodeUpstreamLimit, field, "%d is negative; leave it out for the default", *n)
	}
}

func (f *findings) span(field string, d *time.Duration) {
	if d != nil && *d < 0 {
		f.fault(CodeUpstreamLimit, field, "%s is negative; leave it out for the default", *d)
	}
}

func (f *findings) percentage(field string, n *uint32) {
	if n != nil && *n > 100 {
		f.fault(CodeUpstreamLimit, field, "%d is not a percentage; use 0 to 100", *n)
	}
}
