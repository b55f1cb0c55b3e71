package bootstrap

import "strings"

// A label is one of the dot-separated parts of the name of a mesh target's cluster, in their order, and the
// tag of statistics that it becomes.
type label struct {
	tag, end string
	optional bool
}

// targetLabels are the labels of such a name, as Consul forms it: HASH~SUBSET.SERVICE.NAMESPACE.PARTITION.
// DATACENTER.internal.TRUST.consul.
var targetLabels = []label{
	{tag: "custom_hash", end: "~", optional: true},
	{tag: "service_subset", end: `\.`, optional: true},
	{tag: "service", end: `\.`},
	{tag: "namespace", end: `\.`},
	{tag: "partition", end: `\.`, optional: true},
	{tag: "datacenter", end: `\.`},
	{tag: "routing_type", end: `\.`},
	{tag: "trust_domain", end: `\.`},
}

const (
	anyLabel      = `[^.]+`
	internalLabel = `internal[^.]*` // only there is a label before it a partition or a datacenter
	lastLabel     = `consul`
)

// targetTag is the expression that finds one label in the name of a statistic. Its first group is what goes
// from the name, its second the value of the tag.
func targetTag(head, tag string) string {
	var b strings.Builder
	b.WriteString(head + "(")
	for _, l := range targetLabels {
		text := anyLabel
		if l.tag == "routing_type" && (tag == "partition" || tag == "datacenter") {
			text = internalLabel
		}
		if l.tag == tag {
			text = "(" + text + ")"
		}
		if l.optional {
			text = "(?:" + text + l.end + ")?"
		} else {
			text += l.end
		}
		b.WriteString(text)
	}
	b.WriteString(lastLabel + `\.)`)
	return b.String()
}

// targetPrefix is the expression that finds the name of a target up to a label, and with it.
func targetPrefix(head, last string) string {
	var b strings.Builder
	b.WriteString(head + "((")
	for _, l := range targetLabels {
		switch {
		case l.optional:
			b.WriteString("(?:" + anyLabel + l.end + ")?")
		case l.tag == last:
			b.WriteString(anyLabel + ")" + l.end)
		default:
			b.WriteString(anyLabel + l.end)
		}
	}
	b.WriteString(lastLabel + `\.)`)
	return b.String()
}

// tagJSON is a tag of statistics: of a fixed value, or found in their names.
type tagJSON struct {
	Name  string `json:"tag_name"`
	Regex string `json:"regex,omitempty"`
	Fixed string `json:"fixed_value,omitempty"`
}

// clusterHead begins the names of the statistics of a cluster.
const clusterHead = `^cluster\.`

// destinationTags are those of who is dialled. Dashboards know their names.
func destinationTags(prefix, head string, labels ...string) []tagJSON {
	var tags []tagJSON
	for _, l := range labels {
		tags = append(tags, tagJSON{Name: prefix + l, Regex: targetTag(head, l)})
	}
	return append(tags,
		tagJSON{Name: prefix + "target", Regex: targetPrefix(head, "datacenter")},
		tagJSON{Name: prefix + "full_target", Regex: targetPrefix(head, "trust_domain")})
}

// upstreamTags are those of where connections to others enter the proxy:
// upstream.SERVICE.NAMESPACE.PARTITION.DATACENTER, or upstream_peered.SERVICE.NAMESPACE.PEER.
var upstreamTags = []tagJSON{
	{Name: "consul.upstream.service", Regex: `^(?:tcp|http)\.upstream(?:_peered)?\.(([^.]+)(?:\.[^.]+){0,2}\.[^.]+\.)`},
	{Name: "consul.upstream.datacenter", Regex: `^(?:tcp|http)\.upstream\.([^.]+(?:\.[^.]+){0,2}\.([^.]+)\.)`},
	{Name: "consul.upstream.peer", Regex: `^(?:tcp|http)\.upstream_peered\.([^.]+(?:\.[^.]+)?\.([^.]+)\.)`},
	{Name: "consul.upstream.namespace", Regex: `^(?:tcp|http)\.upstream(?:_peered)?\.([^.]+(?:\.([^.]+))?(?:\.[^.]+)?\.[^.]+\.)`},
	{Name: "consul.upstream.partition", Regex: `^(?:tcp|http)\.upstream\.([^.]+(?:\.[^.]+)?(?:\.([^.]+))?\.[^.]+\.)`},
}

// peerTag is that of a target at a cluster peer: SERVICE.NAMESPACE.PEER.external.TRUST.consul.
var peerTag = tagJSON{Name: "consul.destination.peer", Regex: `^cluster\.([^.]+\.(?:[^.]+\.)?([^.]+)\.external\.[^.]+\.consul\.)`}

// statsTags are the tags that Consul's own sidecars have, so that dashboards find them.
func statsTags(cfg EnvoyConfig) []tagJSON {
	s := cfg.Sidecar
	tags := append([]tagJSON{}, s.Telemetry.tags()...)
	tags = append(tags, destinationTags("consul.destination.", clusterHead+`(?:passthrough~)?`,
		"custom_hash", "service_subset", "service", "namespace", "partition", "datacenter", "routing_type", "trust_domain")...)
	tags = append(append(tags, peerTag), upstreamTags...)
	if !s.OmitDeprecatedTags {
		tags = append(tags, destinationTags("consul.", clusterHead,
			"custom_hash", "service_subset", "service", "namespace", "datacenter", "routing_type", "trust_domain")...)
	}
	return append(tags,
		tagJSON{Name: "local_cluster", Fixed: cfg.Service},
		tagJSON{Name: "consul.source.service", Fixed: cfg.Service},
		tagJSON{Name: "consul.source.namespace", Fixed: "default"},
		tagJSON{Name: "consul.source.partition", Fixed: "default"},
		tagJSON{Name: "consul.source.datacenter", Fixed: s.Datacenter})
}
