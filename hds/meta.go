package hds

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

const metaPrefix = "hds-"

// probeMeta is what the hds- keys of a service and an instance say.
type probeMeta struct {
	probe Probe
	// hasProbe is false where there is no key but the policy's.
	hasProbe bool
	policy   Policy
	// hasPolicy is whether there is a key for it.
	hasPolicy bool
}

// metaKey is a key of Meta: how its value changes the probe. The order of metaKeys does not matter, but
// for the protocol, whose defaults come first.
type metaKey struct {
	name string
	set  func(p *Probe, value string) error
}

func metaKeys() []metaKey {
	return []metaKey{
		{"hds-path", func(p *Probe, v string) error { p.Path = v; return nil }},
		{"hds-host", func(p *Probe, v string) error { p.Host = v; return nil }},
		{"hds-port", func(p *Probe, v string) error { return setNumber(&p.Port, v) }},
		{"hds-interval", func(p *Probe, v string) error { return setDuration(&p.Interval, v) }},
		{"hds-timeout", func(p *Probe, v string) error { return setDuration(&p.Timeout, v) }},
		{"hds-healthy-threshold", func(p *Probe, v string) error { return setNumber(&p.Healthy, v) }},
		{"hds-unhealthy-threshold", func(p *Probe, v string) error { return setNumber(&p.Unhealthy, v) }},
		{"hds-expected-statuses", func(p *Probe, v string) (err error) { p.Statuses, err = ParseStatuses(v); return err }},
		{"hds-tls", func(p *Probe, v string) error { return setBool(&p.TLS, v) }},
	}
}

const (
	protocolKey = "hds-protocol"
	policyKey   = "hds-policy"
)

// parseMeta reads the hds- keys; the instance's win, key by key. A key or value that is not understood is
// an error, because a probe of something else than was meant would take out what is fine.
func parseMeta(service, instance map[string]string) (probeMeta, error) {
	keys := map[string]string{}
	for _, m := range []map[string]string{service, instance} {
		for k, v := range m {
			if strings.HasPrefix(k, metaPrefix) {
				keys[k] = v
			}
		}
	}
	meta := probeMeta{policy: And}
	if len(keys) == 0 {
		return meta, nil
	}
	if v, ok := keys[policyKey]; ok {
		meta.policy = Policy(v)
		if !slices.Contains([]Policy{And, Consul, Only}, meta.policy) {
			return meta, fmt.Errorf("%s is %.40q, and must be and, consul or hds", policyKey, v)
		}
		meta.hasPolicy = true
		delete(keys, policyKey)
	}
	if meta.hasProbe = len(keys) > 0; !meta.hasProbe {
		return meta, nil
	}
	return meta, meta.fill(keys)
}

func (m *probeMeta) fill(keys map[string]string) error {
	m.probe = DefaultProbe(protocolOf(keys))
	delete(keys, protocolKey)
	for _, k := range metaKeys() {
		v, ok := keys[k.name]
		if !ok {
			continue
		}
		if err := k.set(&m.probe, v); err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
		delete(keys, k.name)
	}
	if len(keys) > 0 {
		return fmt.Errorf("%.64q is not a key of health discovery: see docs/hds.md for those there are", slices.Sorted(maps.Keys(keys))[0])
	}
	if text := m.probe.Problem(); text != "" {
		return errors.New(text)
	}
	return nil
}

// protocolOf is the protocol that is asked for, or the one that has the other keys.
func protocolOf(keys map[string]string) Protocol {
	if v, ok := keys[protocolKey]; ok {
		return Protocol(v)
	}
	_, path := keys["hds-path"]
	_, statuses := keys["hds-expected-statuses"]
	if path || statuses {
		return HTTP
	}
	return TCP
}

func setNumber(to *uint32, text string) error {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return fmt.Errorf("%.40q is not a number from 1 to %d", text, maxPort)
	}
	*to = uint32(n)
	return nil
}

func setDuration(to *time.Duration, text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%.40q is not a duration such as 500ms or 2s", text)
	}
	*to = d
	return nil
}

func setBool(to *bool, text string) error {
	b, err := strconv.ParseBool(text)
	if err != nil {
		return fmt.Errorf("%.40q is neither true nor false", text)
	}
	*to = b
	return nil
}
