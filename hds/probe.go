package hds

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// Protocol is what a probe speaks.
type Protocol string

// The protocols of probes.
const (
	HTTP  Protocol = "http"
	TCP   Protocol = "tcp"
	GRPC  Protocol = "grpc"
	Redis Protocol = "redis"
)

// Probe is what a checker does to an endpoint, and how often. It is comparable: endpoints of one set with
// equal probes share a cluster of the specifier.
type Probe struct {
	Protocol Protocol
	// Path is what http asks for, and for grpc the service whose health is asked.
	Path string
	// Host is the Host header of http and the authority of grpc. Without it, http sends the endpoint's address.
	Host string
	// Port is probed in place of the endpoint's own, unless 0.
	Port uint32
	// Interval is the time between a result and the next probe.
	Interval time.Duration
	Timeout  time.Duration
	// Healthy and Unhealthy are how many results in a row change a checker's mind.
	Healthy, Unhealthy uint32
	// Statuses are the HTTP statuses of a healthy endpoint as [ParseStatuses] writes them; empty is 200.
	Statuses string
	// TLS probes through TLS. The certificate is not verified: a probe asks who answers for life, not for identity.
	TLS bool
}

// DefaultProbe is a probe of the protocol with every default. One failure suffices for a checker, because
// it takes several checkers for a verdict.
func DefaultProbe(p Protocol) Probe {
	probe := Probe{Protocol: p, Interval: time.Second, Timeout: time.Second, Healthy: 2, Unhealthy: 1}
	if p == HTTP {
		probe.Path = "/"
	}
	return probe
}

// Bounds of probes. Envoy probes in its main thread, which shorter intervals would fill.
const (
	minInterval  = 100 * time.Millisecond
	maxInterval  = time.Hour
	minTimeout   = 10 * time.Millisecond
	maxTimeout   = time.Minute
	maxThreshold = 100
	maxPath      = 1024
	maxHost      = 255
	maxPort      = 65535
)

// Hash names the probe: equal probes have equal hashes.
func (p Probe) Hash() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %d %d %d %d %d %q %t",
		p.Protocol, p.Path, p.Host, p.Port, p.Interval, p.Timeout, p.Healthy, p.Unhealthy, p.Statuses, p.TLS))
	return hex.EncodeToString(sum[:8])
}

// Problem says why no checker is given the probe; it is empty for one that is fine.
func (p Probe) Problem() string {
	for _, rule := range probeRules() {
		if text := rule(p); text != "" {
			return text
		}
	}
	return ""
}

// probeRules are what a probe must keep, by the first that it breaks.
func probeRules() []func(Probe) string {
	return []func(Probe) string{
		Probe.protocolProblem,
		Probe.timeProblem,
		Probe.thresholdProblem,
		Probe.pathProblem,
		Probe.hostProblem,
		Probe.portProblem,
		Probe.statusProblem,
	}
}

func (p Probe) protocolProblem() string {
	switch p.Protocol {
	case HTTP, TCP, GRPC, Redis:
		return ""
	default:
		return fmt.Sprintf("the protocol is %q, and there are http, tcp, grpc and redis", p.Protocol)
	}
}

func (p Probe) timeProblem() string {
	if p.Interval < minInterval || p.Interval > maxInterval {
		return fmt.Sprintf("the interval is %v, and must be %v to %v", p.Interval, minInterval, maxInterval)
	}
	if p.Timeout < minTimeout || p.Timeout > maxTimeout {
		return fmt.Sprintf("the timeout is %v, and must be %v to %v", p.Timeout, minTimeout, maxTimeout)
	}
	return ""
}

func (p Probe) thresholdProblem() string {
	for _, t := range []uint32{p.Healthy, p.Unhealthy} {
		if t < 1 || t > maxThreshold {
			return fmt.Sprintf("a threshold is %d, and must be 1 to %d", t, maxThreshold)
		}
	}
	return ""
}

func (p Probe) pathProblem() string {
	switch {
	case len(p.Path) > maxPath:
		return fmt.Sprintf("the path is longer than %d bytes", maxPath)
	case !visible(p.Path):
		return "the path holds a space or what is not ASCII: escape it as in a URL"
	case p.Protocol == HTTP && (!strings.HasPrefix(p.Path, "/") || strings.Contains(p.Path, "#")):
		return "the path of http begins with / and has no #"
	case (p.Protocol == TCP || p.Protocol == Redis) && p.Path != "":
		return fmt.Sprintf("a %s probe has no path", p.Protocol)
	}
	return ""
}

func (p Probe) hostProblem() string {
	switch {
	case p.Host == "":
		return ""
	case p.Protocol != HTTP && p.Protocol != GRPC:
		return fmt.Sprintf("a %s probe has no host", p.Protocol)
	case len(p.Host) > maxHost:
		return fmt.Sprintf("the host is longer than %d bytes", maxHost)
	case strings.Trim(p.Host, hostLetters) != "":
		return "the host is a host name or an address, and may have a port"
	}
	return ""
}

const hostLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]"

func (p Probe) portProblem() string {
	if p.Port > maxPort {
		return fmt.Sprintf("the port is %d, and must be 1 to %d", p.Port, maxPort)
	}
	return ""
}

func (p Probe) statusProblem() string {
	if p.Statuses == "" {
		return ""
	}
	if p.Protocol != HTTP {
		return "only http has statuses"
	}
	canonical, err := ParseStatuses(p.Statuses)
	if err != nil {
		return err.Error()
	}
	if canonical != p.Statuses {
		return fmt.Sprintf("the statuses %q are not in order: %q", p.Statuses, canonical)
	}
	return ""
}

func visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}
