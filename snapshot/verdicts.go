package snapshot

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// MetaPrefix begins the keys of Meta that say how health discovery probes a service or an instance.
const MetaPrefix = "hds-"

// judge returns how instances are judged that are dialled directly.
func (k EndpointSetKey) judge(r *facts.Reader) func(*facts.Instance) (Health, uint32) {
	verdicts, _ := r.Verdicts(k.Topic)
	if len(verdicts) == 0 {
		return func(in *facts.Instance) (Health, uint32) { return Judge(in, k.OnlyPassing) }
	}
	return func(in *facts.Instance) (Health, uint32) {
		return JudgeBy(in, k.OnlyPassing, VerdictOn(verdicts, in))
	}
}

// VerdictOn returns the verdict on an instance, or nil.
func VerdictOn(verdicts facts.Verdicts, in *facts.Instance) *facts.Verdict {
	address, port := Dial(in, false)
	ip, err := netip.ParseAddr(address)
	if err != nil || port < 1 || port > 65535 {
		return nil
	}
	if v, ok := verdicts[netip.AddrPortFrom(ip.Unmap(), uint16(port))]; ok {
		return &v
	}
	return nil
}

// awaitsVerdicts reports whether verdicts on a topic's instances are about to come. It is so only shortly after
// a start: what is then known of Consul alone could be worse than what clients have. What nobody probes does not
// read what is awaited, and so is not made again when nothing is any more.
func awaitsVerdicts(r *facts.Reader, topic facts.Topic) bool {
	if topic.Peer != "" || !r.View.Awaiting().All && !probed(r, topic) {
		return false
	}
	if a := r.Awaiting(); a.Datacenter == "" || topic.Datacenter != a.Datacenter {
		return false
	}
	_, known := r.Verdicts(topic)
	return !known
}

// probed reports whether a service asks for probes, or an instance of it.
func probed(r *facts.Reader, topic facts.Topic) bool {
	if e := r.Entry(chain.KindServiceDefaults, topic.Name); e != nil && AsksForProbes(e.Head().Meta) {
		return true
	}
	instances, _ := r.Instances(topic)
	return slices.ContainsFunc(instances, func(in *facts.Instance) bool { return AsksForProbes(in.Service.Meta) })
}

// AsksForProbes reports whether Meta has keys of health discovery.
func AsksForProbes(meta map[string]string) bool {
	for key := range meta {
		if strings.HasPrefix(key, MetaPrefix) {
			return true
		}
	}
	return false
}
