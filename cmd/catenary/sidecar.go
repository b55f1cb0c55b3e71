package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/bootstrap"
	"github.com/catenary-mesh/catenary/internal/facts"
)

// sidecarOf is which registered sidecar a bootstrap is for.
type sidecarOf struct {
	// id is the ID of the instance that it stands beside.
	id string
	// service, proxy and node narrow down where it is looked for; empty ones do not.
	service, proxy, node string

	telemetry      bootstrap.Telemetry
	omitDeprecated bool
}

func (s *sidecarOf) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&s.id, "sidecar-for", "", "the `ID` of the service instance whose registered sidecar the proxy is; read from the source")
	flags.StringVar(&s.node, "node-name", "", "the `node` on which the sidecar is registered, where several have its ID")
	flags.StringVar(&s.telemetry.ReadyBind, "ready-bind", "", "the `address` at which a sidecar answers /ready (default none)")
	flags.StringVar(&s.telemetry.PrometheusBind, "prometheus-bind", "", "the `address` at which a sidecar has metrics for Prometheus (default envoy_prometheus_bind_addr of its configuration)")
	flags.StringVar(&s.telemetry.PrometheusPath, "prometheus-scrape-path", "", "the `path` of these metrics (default /metrics)")
	flags.BoolVar(&s.omitDeprecated, "omit-deprecated-tags", false, "leave out the tags of a sidecar's statistics that Consul had before 1.9")
}

// apply completes the configuration of a bootstrap by what the source says of the sidecar.
func (s *sidecarOf) apply(cmd *cobra.Command, from *sourceFlags, config *bootstrap.EnvoyConfig) error {
	s.service, s.proxy = config.Service, config.ProxyID
	r, err := from.once(cmd, s.wants)
	if err != nil {
		return err
	}
	in, err := s.find(r)
	if err != nil {
		return finding(err)
	}
	config.ProxyID, config.Service = in.Service.ID, in.Service.Proxy.DestinationServiceName
	telemetry, notes := bootstrap.TelemetryOf(centrally(r, in.Service.Proxy.Config))
	for _, note := range notes {
		fmt.Fprintf(cmd.ErrOrStderr(), "catenary: %s\n", note)
	}
	telemetry.ReadyBind, telemetry.PrometheusPath = s.telemetry.ReadyBind, s.telemetry.PrometheusPath
	if s.telemetry.PrometheusBind != "" {
		telemetry.PrometheusBind = s.telemetry.PrometheusBind
	}
	config.Sidecar = &bootstrap.Sidecar{
		Node: in.Node.Node, Datacenter: r.datacenter, Telemetry: telemetry, OmitDeprecatedTags: s.omitDeprecated,
	}
	return nil
}

// centrally is the free-form configuration of a sidecar with that of all proxies under it. Consul has merged
// them already.
func centrally(r reading, own map[string]any) map[string]any {
	merged := map[string]any{}
	if d, _ := r.Entry(chain.KindProxyDefaults, chain.GlobalName); d != nil {
		maps.Copy(merged, d.(*chain.ProxyDefaults).Config)
	}
	maps.Copy(merged, own)
	return merged
}

// topics are the registrations to look for the sidecar in. An ID most often begins with the service's name.
func (s *sidecarOf) topics(r reading) []facts.Topic {
	if s.service != "" {
		return []facts.Topic{facts.Proxies(r.datacenter, s.service)}
	}
	var topics []facts.Topic
	for _, service := range r.AllServices(r.datacenter) {
		if strings.HasPrefix(strings.ToLower(s.id), strings.ToLower(service)) {
			topics = append(topics, facts.Proxies(r.datacenter, service))
		}
	}
	return topics
}

func (s *sidecarOf) wants(r reading) (needs []facts.Topic, missing string) {
	needs = s.topics(r)
	for _, topic := range needs {
		if !r.Known(topic) {
			missing = r.Why(facts.ID{Topic: topic})
		}
	}
	return needs, missing
}

// find returns the registration of the sidecar.
func (s *sidecarOf) find(r reading) (*facts.Instance, error) {
	var found []*facts.Instance
	for _, topic := range s.topics(r) {
		list, _ := r.Instances(topic)
		for _, in := range list {
			if s.is(in) {
				found = append(found, in)
			}
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, fmt.Errorf("%d sidecars of the instance %s are registered (%s): choose one with --node-name or --proxy-id",
			len(found), s.id, places(found))
	case s.service == "":
		return nil, fmt.Errorf("no sidecar is registered for an instance %s of a service whose name its ID begins with: register one, or name the service with --service", s.id)
	}
	return nil, fmt.Errorf("no sidecar is registered for the instance %s of service %s", s.id, s.service)
}

func (s *sidecarOf) is(in *facts.Instance) bool {
	p := in.Service.Proxy
	return p != nil && p.DestinationServiceID == s.id &&
		(s.proxy == "" || s.proxy == in.Service.ID) && (s.node == "" || s.node == in.Node.Node)
}

func places(list []*facts.Instance) string {
	var texts []string
	for _, in := range list {
		texts = append(texts, in.Service.ID+" on "+in.Node.Node)
	}
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}
