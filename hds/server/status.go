package server

import (
	"context"
	"net"
	"slices"
	"strings"
	"time"
)

func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// counts counts since the start.
type counts struct {
	Reports, Observations, Specifiers, Changes uint64
	Refused, Broken, Freezes                   uint64
	// lagSum and lagCount are of the times between a checker's reports.
	lagSum   time.Duration
	lagCount uint64
}

func (c *counts) lag(d time.Duration) {
	c.lagSum += d
	c.lagCount++
}

// ask has the engine answer a question of the HTTP side.
func (s *Server) ask(f func(e *engine, now time.Time)) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = s.do(ctx, f) // a server that ends has nothing to tell
}

// CheckerStatus is a connected checker, as /api/v1/checkers prints it.
type CheckerStatus struct {
	// Checker is the identity that it has proven, which has one vote.
	Checker string `json:"checker"`
	NodeID  string `json:"nodeId"`
	Node    string `json:"node,omitempty"`
	Region  string `json:"region,omitempty"`
	Zone    string `json:"zone,omitempty"`
	Address string `json:"address"`
	Version string `json:"version"`
	// Form is how it talks: stream or fetch, of v3 or v2.
	Form string `json:"form"`
	// State is working, standing-by or broken, and Reason why it is broken.
	State     string    `json:"state"`
	Reason    string    `json:"reason,omitempty"`
	Duties    int       `json:"duties"`
	Reports   uint64    `json:"reports"`
	Connected time.Time `json:"connected"`
	// ReportAgeSeconds is how long ago its last report came; negative when none has.
	ReportAgeSeconds float64 `json:"reportAgeSeconds"`
}

// Checkers lists the connected checkers, in the order of their identities.
func (s *Server) Checkers() []CheckerStatus {
	list := []CheckerStatus{}
	s.ask(func(e *engine, now time.Time) {
		for _, c := range e.checkers {
			for _, st := range c.streams {
				list = append(list, st.status(now, c.active == st))
			}
		}
	})
	slices.SortStableFunc(list, func(a, b CheckerStatus) int {
		return strings.Compare(a.Checker+"\x00"+a.NodeID, b.Checker+"\x00"+b.NodeID)
	})
	return list
}

func (s *stream) status(now time.Time, active bool) CheckerStatus {
	out := CheckerStatus{
		Checker: s.id, NodeID: s.hello.NodeID, Node: s.client.Node, Region: s.hello.Region, Zone: s.hello.Zone,
		Address: s.address, Version: s.hello.Version, Form: "stream v3", State: "standing-by", Reason: s.broken,
		Duties: len(s.told), Reports: s.heard, Connected: s.since.UTC(), ReportAgeSeconds: -1,
	}
	form, version := "stream", "v3"
	if s.lease != nil {
		form = "fetch"
	}
	if s.v2 {
		version = "v2"
	}
	out.Form = form + " " + version
	switch {
	case s.broken != "":
		out.State = "broken"
	case active:
		out.State = "working"
	}
	if heard := s.reports.Heard(); !heard.IsZero() {
		out.ReportAgeSeconds = now.Sub(heard).Round(time.Millisecond).Seconds()
	}
	return out
}
