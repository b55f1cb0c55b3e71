package snapshot

import (
	"strings"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// Health is what an endpoint set says of an endpoint.
type Health string

// The health of an endpoint. An unhealthy one is still listed: Envoy counts it in its panic
// arithmetic and drains what it has open there.
const (
	Healthy   Health = "HEALTHY"
	Unhealthy Health = "UNHEALTHY"
)

// maxWeight is the largest weight an endpoint can have, as in Consul.
const maxWeight = 128

// Judge is the health table: the worst check decides, a warning counts as healthy with the warning
// weight unless only passing instances are wanted, and weight 0 is unhealthy.
func Judge(in *facts.Instance, onlyPassing bool) (Health, uint32) {
	worst := WorstStatus(in)
	weights := in.Service.Weights
	if weights == (facts.Weights{}) {
		weights = facts.Weights{Passing: 1, Warning: 1}
	}
	weight := weights.Passing
	if worst == facts.StatusWarning {
		weight = weights.Warning
	}
	health := Healthy
	switch {
	case worst == facts.StatusCritical,
		worst == facts.StatusWarning && onlyPassing,
		weight <= 0:
		health = Unhealthy
	}
	return health, uint32(min(max(weight, 1), maxWeight))
}

// JudgeBy is [Judge] with the verdict of health discovery, nil where there is none. Consul's checks and a verdict
// must both be well, unless the verdict is to count alone: then the checks say only that an instance is in
// maintenance.
func JudgeBy(in *facts.Instance, onlyPassing bool, verdict *facts.Verdict) (Health, uint32) {
	maintenance := false
	if verdict != nil && verdict.Only {
		maintenance = InMaintenance(in)
		unchecked := *in
		unchecked.Checks = nil
		in = &unchecked
	}
	health, weight := Judge(in, onlyPassing)
	if maintenance || verdict != nil && !verdict.Up {
		health = Unhealthy
	}
	return health, weight
}

// WorstStatus is the worst status among an instance's checks: passing when it has none. A status that
// Consul does not define counts as critical.
func WorstStatus(in *facts.Instance) facts.CheckStatus {
	worst := facts.StatusPassing
	for _, c := range in.Checks {
		switch c.Status {
		case facts.StatusPassing:
		case facts.StatusWarning:
			worst = facts.StatusWarning
		default:
			return facts.StatusCritical
		}
	}
	return worst
}

// InMaintenance reports whether the instance or its node is in maintenance mode.
func InMaintenance(in *facts.Instance) bool {
	for _, c := range in.Checks {
		if c.CheckID == "_node_maintenance" || strings.HasPrefix(c.CheckID, "_service_maintenance") {
			return true
		}
	}
	return false
}
