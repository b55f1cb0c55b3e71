package chain

import (
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/hashicorp/go-bexpr"
)

func (f *findings) resolver(e *ServiceResolver) {
	label := regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	for _, name := range slices.Sorted(maps.Keys(e.Subsets)) {
		path := keyed("Subsets", name)
		if !label.MatchString(name) {
			f.fault(CodeSubsetName, path, "%q cannot name a subset; use at most 63 of a-z, 0-9 and -, with no - at either end", name)
		}
		f.filter(path+".Filter", e.Subsets[name].Filter)
	}
	f.ownSubset(e, "DefaultSubset", "", e.DefaultSubset)
	f.timeout("ConnectTimeout", e.ConnectTimeout)
	f.timeout("RequestTimeout", e.RequestTimeout)
	if e.PrioritizeByLocality != nil {
		f.enterprise("PrioritizeByLocality", "Mode", e.PrioritizeByLocality.Mode)
	}
	if e.Redirect != nil && len(e.Failover) > 0 {
		f.fault(CodeRedirectFailover, "Failover", "a redirected service has no instances to fail over from; keep Redirect or Failover")
	}
	if e.Redirect != nil {
		f.redirect(e, e.Redirect)
	}
	for _, key := range slices.Sorted(maps.Keys(e.Failover)) {
		fo := e.Failover[key]
		f.failover(e, key, &fo)
	}
	if e.LoadBalancer != nil {
		f.loadBalancer(e.LoadBalancer)
	}
}

func (f *findings) filter(field, expression string) {
	if expression == "" {
		return
	}
	if _, err := bexpr.CreateEvaluator(expression); err != nil {
		f.fault(CodeFilter, field, "%q is not a filter expression: %v", expression, err)
	}
}

// ownSubset refuses a subset of this very service that is not defined; of other services nothing is
// known here.
func (f *findings) ownSubset(e *ServiceResolver, field, service, subset string) {
	if subset == "" || (service != "" && service != e.Name) {
		return
	}
	if _, ok := e.Subsets[subset]; !ok {
		f.fault(CodeUnknownSubset, field, "%q has no subset %q; define it under Subsets", e.Name, subset)
	}
}

func (f *findings) timeout(field string, d time.Duration) {
	if d < 0 {
		f.fault(CodeNegativeTimeout, field, "%s is negative; use 0 for the default", d)
	}
}

func (f *findings) redirect(e *ServiceResolver, r *Redirect) {
	if *r == (Redirect{}) {
		f.fault(CodeRedirectEmpty, "Redirect", "the redirect leads nowhere; set Service or Datacenter, or leave Redirect out")
		return
	}
	f.enterprise("Redirect", "Namespace", r.Namespace, "Partition", r.Partition, "SamenessGroup", r.SamenessGroup)
	if r.Service == "" && (r.ServiceSubset != "" || r.Peer != "") {
		f.fault(CodeRedirectService, "Redirect", "ServiceSubset and Peer need Service; name the service they belong to")
	}
	f.peerAlone("Redirect", r.Peer, "ServiceSubset", r.ServiceSubset, "Datacenter", r.Datacenter)
	if r.Service != "" {
		f.ownSubset(e, "Redirect.ServiceSubset", r.Service, r.ServiceSubset)
	}
}

// peerAlone refuses fields that mean nothing at a peer; names and values alternate.
func (f *findings) peerAlone(path, peer string, namesAndValues ...string) {
	for i := 0; peer != "" && i+1 < len(namesAndValues); i += 2 {
		if namesAndValues[i+1] != "" {
			f.fault(CodePeerCombined, join(path, namesAndValues[i]),
				"Peer cannot be combined with %s: only the peer decides that; leave one out", namesAndValues[i])
		}
	}
}
