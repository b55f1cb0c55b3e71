package hds

import "fmt"

// Question is what is known about how an endpoint is to be probed.
type Question struct {
	// ServiceMeta is the Meta of the service's defaults, InstanceMeta that of the instance, which wins.
	ServiceMeta, InstanceMeta map[string]string
	// Address is the instance's own: definitions that name another machine are not about it.
	Address string
	// Definitions are the instance's checks, with --hds-from-checks.
	Definitions []Definition
	// DefaultTCP has endpoints probed that nothing else says a probe for.
	DefaultTCP bool
	// Mesh marks an endpoint that demands a client certificate.
	Mesh bool
}

// Choice is how an endpoint is to be probed. Refused is empty where there is a probe; it and Skipped say
// why there is none, or why it is not what a check says.
type Choice struct {
	Probe  Probe
	Policy Policy
	// From says where the probe comes from.
	From string
	// Found is false where nothing asks for a probe.
	Found   bool
	Skipped []string
	Refused string
}

// Choose decides how an endpoint is probed: by the hds- keys of its Meta, else by its checks' definitions,
// else by a TCP connect where that is the default.
func Choose(q Question) Choice {
	meta, err := parseMeta(q.ServiceMeta, q.InstanceMeta)
	if err != nil {
		return Choice{Policy: And, From: "meta", Refused: err.Error()}
	}
	c := Choice{Policy: meta.policy}
	switch {
	case meta.hasProbe:
		c.Probe, c.From, c.Found = meta.probe, "meta", true
	case c.fromDefinitions(q):
	case q.DefaultTCP:
		c.Probe, c.From, c.Found = DefaultProbe(TCP), "default", true
	case meta.hasPolicy:
		c.Skipped = append(c.Skipped, policyKey+" is given, and nothing says how to probe it: hds-protocol does, or --hds-default tcp")
	}
	if c.Found && q.Mesh {
		c.Refused = meshProblem(c.Probe)
		c.Found = c.Refused == ""
	}
	return c
}

func (c *Choice) fromDefinitions(q Question) bool {
	for _, d := range q.Definitions {
		probe, reason := d.probe(q.Address)
		if reason != "" {
			c.Skipped = append(c.Skipped, fmt.Sprintf("check %.64q: %s", d.CheckID, reason))
			continue
		}
		c.Probe, c.From, c.Found = probe, fmt.Sprintf("check %.64q", d.CheckID), true
		return true
	}
	return false
}

func meshProblem(p Probe) string {
	if p.Protocol != TCP || p.TLS || p.Port != 0 {
		return fmt.Sprintf("endpoints of the mesh demand a client certificate, which checkers have not: they are probed by tcp connect only, and not by %s", p.words())
	}
	return ""
}

func (p Probe) words() string {
	text := string(p.Protocol)
	if p.TLS {
		text += " with tls"
	}
	if p.Port != 0 {
		text += fmt.Sprintf(" at port %d", p.Port)
	}
	return text
}
