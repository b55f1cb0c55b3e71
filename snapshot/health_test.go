package snapshot

import (
	"testing"

	"github.com/catenary-mesh/catenary/internal/facts"
)

func TestHealthIsJudgedRowByRow(t *testing.T) {
	const (
		passing, warning, critical = facts.StatusPassing, facts.StatusWarning, facts.StatusCritical
	)
	weights := facts.Weights{Passing: 10, Warning: 3}
	for _, c := range []struct {
		name        string
		checks      []facts.CheckStatus
		weights     facts.Weights
		onlyPassing bool
		want        Health
		weight      uint32
	}{
		{"no checks", nil, weights, false, Healthy, 10},
		{"no checks, only passing", nil, weights, true, Healthy, 10},
		{"passing", []facts.CheckStatus{passing}, weights, false, Healthy, 10},
		{"passing, only passing", []facts.CheckStatus{passing}, weights, true, Healthy, 10},
		{"warning", []facts.CheckStatus{passing, warning}, weights, false, Healthy, 3},
		{"warning, only passing", []facts.CheckStatus{warning, passing}, weights, true, Unhealthy, 3},
		{"critical", []facts.CheckStatus{critical}, weights, false, Unhealthy, 10},
		{"critical after warning", []facts.CheckStatus{warning, critical}, weights, false, Unhealthy, 10},
		{"warning after critical", []facts.CheckStatus{critical, warning}, weights, true, Unhealthy, 10},
		{"a status that Consul does not define", []facts.CheckStatus{"maintenance"}, weights, false, Unhealthy, 10},
		{"no weights", []facts.CheckStatus{warning}, facts.Weights{}, false, Healthy, 1},
		{"warning weight 0", []facts.CheckStatus{warning}, facts.Weights{Passing: 10}, false, Unhealthy, 1},
		{"warning weight 0, passing", []facts.CheckStatus{passing}, facts.Weights{Passing: 10}, false, Healthy, 10},
		{"passing weight 0", []facts.CheckStatus{passing}, facts.Weights{Warning: 1}, false, Unhealthy, 1},
		{"a weight below 0", nil, facts.Weights{Passing: -1, Warning: 1}, false, Unhealthy, 1},
		{"the largest weight", nil, facts.Weights{Passing: 128, Warning: 1}, false, Healthy, 128},
		{"a larger weight", nil, facts.Weights{Passing: 65535, Warning: 1}, false, Healthy, 128},
	} {
		in := &facts.Instance{Service: facts.Service{Weights: c.weights}}
		for _, s := range c.checks {
			in.Checks = append(in.Checks, facts.Check{Status: s})
		}
		if health, weight := Judge(in, c.onlyPassing); health != c.want || weight != c.weight {
			t.Errorf("%s: %s with weight %d, want %s with %d", c.name, health, weight, c.want, c.weight)
		}
	}
}

func TestVerdictsAreJudgedRowByRow(t *testing.T) {
	up, down := &facts.Verdict{Up: true}, &facts.Verdict{}
	onlyUp, onlyDown := &facts.Verdict{Up: true, Only: true}, &facts.Verdict{Only: true}
	for _, c := range []struct {
		name        string
		check       facts.CheckStatus
		checkID     string
		weights     facts.Weights
		onlyPassing bool
		verdict     *facts.Verdict
		want        Health
	}{
		{"passing, no verdict", facts.StatusPassing, "c", facts.Weights{}, false, nil, Healthy},
		{"passing, up", facts.StatusPassing, "c", facts.Weights{}, false, up, Healthy},
		{"passing, down", facts.StatusPassing, "c", facts.Weights{}, false, down, Unhealthy},
		{"warning, no verdict", facts.StatusWarning, "c", facts.Weights{}, false, nil, Healthy},
		{"warning, up", facts.StatusWarning, "c", facts.Weights{}, false, up, Healthy},
		{"warning, up, only passing", facts.StatusWarning, "c", facts.Weights{}, true, up, Unhealthy},
		{"warning, down", facts.StatusWarning, "c", facts.Weights{}, false, down, Unhealthy},
		{"critical, up", facts.StatusCritical, "c", facts.Weights{}, false, up, Unhealthy},
		{"critical, down", facts.StatusCritical, "c", facts.Weights{}, false, down, Unhealthy},
		{"critical, the verdict alone, up", facts.StatusCritical, "c", facts.Weights{}, false, onlyUp, Healthy},
		{"warning, the verdict alone, up, only passing", facts.StatusWarning, "c", facts.Weights{}, true, onlyUp, Healthy},
		{"passing, the verdict alone, down", facts.StatusPassing, "c", facts.Weights{}, false, onlyDown, Unhealthy},
		{"maintenance, the verdict alone, up", facts.StatusCritical, "_node_maintenance", facts.Weights{}, false, onlyUp, Unhealthy},
		{"maintenance, up", facts.StatusCritical, "_service_maintenance:c", facts.Weights{}, false, up, Unhealthy},
		{"weight 0, the verdict alone, up", facts.StatusPassing, "c", facts.Weights{Warning: 1}, false, onlyUp, Unhealthy},
		{"weight 0, up", facts.StatusPassing, "c", facts.Weights{Warning: 1}, false, up, Unhealthy},
	} {
		in := &facts.Instance{Service: facts.Service{Weights: c.weights}, Checks: []facts.Check{{CheckID: c.checkID, Status: c.check}}}
		if health, _ := JudgeBy(in, c.onlyPassing, c.verdict); health != c.want {
			t.Errorf("%s: %s, want %s", c.name, health, c.want)
		}
	}
}

func TestMaintenanceIsTold(t *testing.T) {
	for id, want := range map[string]bool{
		"_node_maintenance": true, "_service_maintenance:api-1": true, "service:api-1": false, "serfHealth": false,
	} {
		in := &facts.Instance{Checks: []facts.Check{{CheckID: "c"}, {CheckID: id, Status: facts.StatusCritical}}}
		if got := InMaintenance(in); got != want {
			t.Errorf("with the check %s an instance is in maintenance: %t", id, got)
		}
	}
}
