package snapshot

import (
	"net/netip"
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
// a start: what is then known of Consul alone could be worse than what clients have.
func awaitsVerdicts(r *facts.Reader, topic facts.Topic) bool {
	a := r.Awaiting()
	if a.Datacenter == "" || topic.Datacenter != a.Datacenter || topic.Peer != "" {
		return false
	}
	if _, known := r.Verdicts(topic); known {
		return false
	}
	if e := r.Entry(chain.KindServiceDefaults, topic.Name); a.All || e != nil && AsksForProbes(e.Head().Meta) {
		return true
	}
	instances, _ := r.Instances(topic)
	for _, in := range instances {
		if AsksForProbes(in.Service.Meta) {
			return true
		}
	}
	return false
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
