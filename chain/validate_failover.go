package chain

func (f *findings) failover(e *ServiceResolver, key string, fo *Failover) {
	path := keyed("Failover", key)
	if _, ok := e.Subsets[key]; key != "*" && !ok {
		f.fault(CodeFailoverKey, path, "%q is neither \"*\" nor a subset of %q; define the subset, or use \"*\" for all", key, e.Name)
	}
	if countSet(fo.Service, fo.ServiceSubset, fo.Namespace, fo.SamenessGroup) == 0 && len(fo.Datacenters) == 0 && len(fo.Targets) == 0 {
		f.fault(CodeFailoverEmpty, path, "the failover leads nowhere; set Service, ServiceSubset, Datacenters or Targets")
	}
	f.enterprise(path, "Namespace", fo.Namespace, "SamenessGroup", fo.SamenessGroup)
	if fo.Policy != nil {
		f.enterprise(path+".Policy", "Mode", fo.Policy.Mode)
	}
	if len(fo.Targets) == 0 {
		f.ownSubset(e, path+".ServiceSubset", fo.Service, fo.ServiceSubset)
	}
	for i, dc := range fo.Datacenters {
		if dc == "" {
			f.fault(CodeDatacenterEmpty, at(path+".Datacenters", i), "the name of the datacenter is empty")
		}
	}
	f.failoverTargets(e, path, fo)
}

func (f *findings) failoverTargets(e *ServiceResolver, path string, fo *Failover) {
	if len(fo.Targets) > 0 && (len(fo.Datacenters) > 0 || countSet(fo.Service, fo.ServiceSubset) > 0) {
		f.fault(CodeFailoverForms, path, "Targets stands alone; move Service, ServiceSubset and Datacenters into its items")
	}
	for i := range fo.Targets {
		t, path := &fo.Targets[i], at(path+".Targets", i)
		f.enterprise(path, "Namespace", t.Namespace, "Partition", t.Partition)
		f.peerAlone(path, t.Peer, "ServiceSubset", t.ServiceSubset, "Datacenter", t.Datacenter)
		if t.Peer == "" {
			f.ownSubset(e, path+".ServiceSubset", t.Service, t.ServiceSubset)
		}
	}
}
