package main

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/catenary-mesh/catenary/internal/journey"
	"github.com/catenary-mesh/catenary/internal/render"
	"github.com/catenary-mesh/catenary/snapshot"
)

// writeJourney prints the answer first, and then what it follows from, nearest first.
func writeJourney(w io.Writer, j *journey.Journey) error {
	parts := []func(io.Writer, *journey.Journey) error{writeAnswer, writeRoutes, writeLegs, writeTargets, writeOrigin}
	for i, part := range parts {
		if i > 0 && j.Explanation == nil {
			break
		}
		if err := part(w, j); err != nil {
			return err
		}
	}
	return nil
}

func writeAnswer(w io.Writer, j *journey.Journey) error {
	rows := [][]string{
		{"service", j.Service + " in " + j.Datacenter},
		{"client", string(j.Kind)},
	}
	if j.Request != nil {
		rows = append(rows, []string{"request", j.Request.String()})
	}
	switch {
	case j.Refused != "":
		rows = append(rows, []string{"goes to", "nothing: " + j.Refused})
	case len(j.Traffic) > 0:
		rows = append(rows, []string{"goes to", shareList(j.Traffic)})
	case j.Pending != "":
		rows = append(rows, []string{"goes to", "not known yet: " + j.Pending})
	default:
		rows = append(rows, []string{"goes to", "where its route leads: see below, or name a request"})
	}
	return render.Table(w, []string{"question", "answer"}, rows)
}

func shareList(list []journey.Share) string {
	parts := make([]string, len(list))
	for i, s := range list {
		to := s.Target
		if s.Fails != "" {
			to = s.Fails
		}
		parts[i] = to + " " + percent(s.Percent)
		if len(list) == 1 {
			parts[i] = to
		}
	}
	return strings.Join(parts, ", ")
}

func percent(p float64) string { return strconv.FormatFloat(p, 'f', -1, 64) + " %" }

// section begins a part of the text.
func section(w io.Writer, header []string, rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	return render.Table(w, header, rows)
}

func writeRoutes(w io.Writer, j *journey.Journey) error {
	if len(j.Routes) == 1 && len(j.Routes[0].Facts) == 0 {
		return nil // there is nothing to choose
	}
	rows := make([][]string, 0, len(j.Routes))
	for _, r := range j.Routes {
		notes := slices.Clone(r.Why)
		if r.Arrives != "" {
			notes = append(notes, "the instance sees "+r.Arrives)
		}
		for _, f := range r.Facts {
			notes = append(notes, strings.TrimPrefix(f.What, "route: "))
		}
		row := []string{routeNumber(r), r.Match, r.Verdict, strings.Join(notes, "; ")}
		if j.Request == nil {
			row = slices.Delete(row, 2, 3)
		}
		rows = append(rows, row)
	}
	header := []string{"route", "takes", "verdict", "because, or what it does"}
	if j.Request == nil {
		header = []string{"route", "takes", "what it does"}
	}
	return section(w, header, rows)
}

func routeNumber(r journey.Route) string {
	if r.Number == 0 {
		return "-"
	}
	return strconv.Itoa(r.Number)
}

func writeLegs(w io.Writer, j *journey.Journey) error {
	var rows [][]string
	for _, r := range j.Routes {
		for _, leg := range r.Legs {
			at := slices.IndexFunc(j.Targets, func(t *journey.Target) bool { return t.ID == leg.Target })
			healthy, then := "", ""
			if at >= 0 {
				healthy, then = counts(j.Targets[at]), shareList(j.Targets[at].Then)
			}
			ends := "not known yet"
			if len(leg.Traffic) > 0 {
				ends = shareList(leg.Traffic)
			}
			for _, f := range leg.Facts {
				ends += "; " + f.What
			}
			rows = append(rows, []string{routeNumber(r), percent(leg.Percent), leg.Target, healthy, ends, then})
		}
	}
	return section(w, []string{"route", "share", "target", "healthy", "ends at", "without the target"}, rows)
}

func counts(t *journey.Target) string {
	text := fmt.Sprintf("%d of %d", t.Healthy, t.Total)
	if t.Without {
		text += ", as if 0"
	}
	return text
}

// maxShown is how many endpoints of a target are printed.
const maxShown = 20

func writeTargets(w io.Writer, j *journey.Journey) error {
	for _, t := range met(j) {
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
		if err := render.Tree(w, &render.Branch{Text: "target " + t.ID + bracketed(t.From), Notes: targetNotes(t)}); err != nil {
			return err
		}
		rows := endpointRows(t)
		if len(rows) == 0 {
			continue
		}
		if err := render.Table(w, []string{"    health", "share", "address", "weight", "instance", "node", "why"}, rows); err != nil {
			return err
		}
	}
	return nil
}

// met are the targets that the request may meet; without one all.
func met(j *journey.Journey) []*journey.Target {
	if j.Request == nil {
		return j.Targets
	}
	on := map[string]bool{}
	for _, r := range j.Routes {
		for _, leg := range r.Legs {
			on[leg.Target] = true
		}
	}
	for _, t := range j.Targets {
		if on[t.ID] {
			for _, id := range t.Failover {
				on[id] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(j.Targets), func(t *journey.Target) bool { return !on[t.ID] })
}

func targetNotes(t *journey.Target) []string {
	notes := []string{"cluster " + t.Cluster, counts(t) + " healthy"}
	if t.Reason != "" {
		notes = append(notes, t.Reason)
	}
	if t.State == "suspect" {
		notes = append(notes, "the source does not show these instances any more, but cannot be trusted in that: they are still served")
	}
	if t.Outside > 0 {
		notes = append(notes, fmt.Sprintf("%d more of the service are not in the subset: %s", t.Outside, t.Filter))
	}
	if len(t.Failover) > 0 {
		notes = append(notes, "fails over to "+strings.Join(t.Failover, ", then "))
	}
	if len(t.Failover) > 0 && t.Healthy > 0 && t.Healthy*7 < t.Total*5 && !t.Without {
		notes = append(notes, "part of its requests fails over already, as less than 5 of 7 endpoints are healthy")
	}
	if more := len(t.Endpoints) - maxShown; more > 0 {
		notes = append(notes, fmt.Sprintf("%d of the endpoints are not shown: -o json has all", more))
	}
	return notes
}

// endpointRows begins with what is not well where there are too many to show.
func endpointRows(t *journey.Target) [][]string {
	list := slices.Clone(t.Endpoints)
	if len(list) > maxShown {
		slices.SortStableFunc(list, func(a, b journey.Endpoint) int { return rank(a) - rank(b) })
		list = list[:maxShown]
	}
	rows := make([][]string, len(list))
	for i, e := range list {
		share := "-"
		if e.Percent > 0 {
			share = percent(e.Percent)
		}
		rows[i] = []string{
			"    " + e.Health, share, net.JoinHostPort(e.Address, strconv.FormatUint(uint64(e.Port), 10)),
			strconv.FormatUint(uint64(e.Weight), 10), e.ID, e.Node, e.Why,
		}
	}
	return rows
}

func rank(e journey.Endpoint) int {
	if e.Health == string(snapshot.Healthy) {
		return 1
	}
	return 0
}

// writeOrigin prints how the chain came about.
func writeOrigin(w io.Writer, j *journey.Journey) error {
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	return render.Tree(w, chainTree(j.Explanation))
}
