package chain

import "slices"

func (f *findings) loadBalancer(lb *LoadBalancer) {
	policies := []string{"random", "round_robin", "least_request", "ring_hash", "maglev"}
	if lb.Policy != "" && !slices.Contains(policies, lb.Policy) {
		f.fault(CodeBalancerPolicy, "LoadBalancer.Policy", "%q is not a policy; use one of %q", lb.Policy, policies)
	}
	if lb.RingHashConfig != nil && lb.Policy != "ring_hash" {
		f.fault(CodeBalancerConfig, "LoadBalancer.RingHashConfig", "only the policy ring_hash takes it; the policy is %q", lb.Policy)
	}
	if lb.LeastRequestConfig != nil && lb.Policy != "least_request" {
		f.fault(CodeBalancerConfig, "LoadBalancer.LeastRequestConfig", "only the policy least_request takes it; the policy is %q", lb.Policy)
	}
	if len(lb.HashPolicies) > 0 && !lb.hashes() {
		f.fault(CodeBalancerConfig, "LoadBalancer.HashPolicies", "only the policies ring_hash and maglev take them; the policy is %q", lb.Policy)
	}
	for i := range lb.HashPolicies {
		f.hashPolicy(at("LoadBalancer.HashPolicies", i), &lb.HashPolicies[i])
	}
}

func (f *findings) hashPolicy(path string, h *HashPolicy) {
	fields := []string{"header", "cookie", "query_parameter"}
	if h.Field != "" && !slices.Contains(fields, h.Field) {
		f.fault(CodeHashPolicy, path+".Field", "%q cannot be hashed; use one of %q, or SourceIP", h.Field, fields)
	}
	switch {
	case h.SourceIP && countSet(h.Field, h.FieldValue) > 0:
		f.fault(CodeHashPolicy, path+".SourceIP", "SourceIP stands alone; hash the field by a policy of its own")
	case h.Field != "" && h.FieldValue == "":
		f.fault(CodeHashPolicy, path+".FieldValue", "name the %s to hash", h.Field)
	case h.Field == "" && h.FieldValue != "":
		f.fault(CodeHashPolicy, path+".Field", "say what %q is: one of %q", h.FieldValue, fields)
	}
	if h.CookieConfig == nil {
		return
	}
	if h.Field != "cookie" {
		f.fault(CodeHashPolicy, path+".CookieConfig", "only the field cookie takes it")
	}
	if h.CookieConfig.Session && h.CookieConfig.TTL != 0 {
		f.fault(CodeHashPolicy, path+".CookieConfig.TTL", "a session cookie has no TTL; leave one out")
	}
}
