package xds

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/snapshot"
	"github.com/catenary-mesh/catenary/xds/session"
)

// Proxies returns the state of every connected client, in the order of IDs.
func (s *Server) Proxies() []ProxyStatus {
	streams := s.streamsInOrder()
	root, now := s.pub.root.Load(), time.Now()
	list := make([]ProxyStatus, 0, len(streams))
	for _, st := range streams {
		if at, ok := root.seats.Get([]byte(st.id)); ok {
			list = append(list, st.report(now, at.plan))
		}
	}
	return list
}

// report puts together what the session and the plan say.
func (st *stream) report(now time.Time, plan *snapshot.Plan) ProxyStatus {
	out := ProxyStatus{
		ID: st.client.ID, Service: st.client.Service, Kind: string(plan.Kind),
		Address: st.peer.String(), Protocol: formName(st.form), Version: st.version,
		ConnectedAt: st.connected,
	}
	st.mu.Lock()
	types := st.session.Status(now).Types
	st.mu.Unlock()
	for i := range types {
		out.Types = append(out.Types, typeStatus(&types[i]))
	}
	for _, u := range plan.Parts {
		if u.Pending != "" {
			out.Pending = append(out.Pending, PendingStatus{Upstream: u.Name, Reason: u.Pending})
		}
		for _, reason := range u.Missing {
			out.Pending = append(out.Pending, PendingStatus{Upstream: u.Name, Reason: reason})
		}
		for _, note := range u.Notes {
			out.Notes = append(out.Notes, u.Name+": "+note)
		}
		for j := range u.Problems {
			out.Problems = append(out.Problems, u.Name+": "+u.Problems[j].Message)
		}
	}
	out.State, out.Reason = overall(&out, plan)
	return out
}

// overall is the worst that can be said of a client, with the reason.
func overall(p *ProxyStatus, plan *snapshot.Plan) (state, reason string) {
	for i := range p.Types {
		if t := &p.Types[i]; t.State == StateNacked && t.Nack != nil {
			return StateNacked, t.Type + ": " + t.Nack.Message
		}
	}
	switch {
	case plan.Unregistered != "":
		return StateUnregistered, plan.Unregistered
	case plan.Hold != "":
		return StatePending, plan.Hold
	}
	for i := range p.Types {
		if t := &p.Types[i]; t.State == StateStale {
			return StateStale, t.Type + ": no answer to what was sent"
		}
	}
	if len(p.Pending) > 0 {
		return StatePending, p.Pending[0].Upstream + ": " + p.Pending[0].Reason
	}
	for i := range p.Types {
		if p.Types[i].State == StateSynced {
			return StateSynced, ""
		}
	}
	return StateNotSent, "the client has not asked for anything that there is"
}

// ChainStatus is what is known of a service's chain, without the overrides of any downstream.
type ChainStatus struct {
	// Chain is nil when none compiled.
	Chain *chain.Chain
	// Problems are those of the entries as they are now.
	Problems []chain.Problem
	// LastGood reports that Chain is older than the entries, which do not compile.
	LastGood bool
	// Pending says what must be known before the chain can be compiled; empty when it is.
	Pending string
}

// Chain returns the chain of a service as clients have it, or compiled now if none has it. An empty
// datacenter is the server's own.
func (s *Server) Chain(service, datacenter string) ChainStatus {
	if datacenter == "" {
		datacenter = s.cfg.Datacenter
	}
	s.pub.mu.Lock()
	defer s.pub.mu.Unlock()
	state := s.pub.cache.Compile(snapshot.ChainKey{Service: service, Datacenter: datacenter}, s.cfg.Store.View())
	return ChainStatus{Chain: state.Chain, Problems: state.Problems, LastGood: state.LastGood, Pending: state.Pending}
}

// ChainProblem is a chain that does not compile now.
type ChainProblem struct {
	Service    string          `json:"service"`
	Datacenter string          `json:"datacenter"`
	LastGood   bool            `json:"last_good_in_force"`
	Problems   []chain.Problem `json:"problems"`
}

// Problems returns the chains in use that do not compile, in the order of services.
func (s *Server) Problems() []ChainProblem {
	s.pub.mu.Lock()
	chains := s.pub.cache.Chains()
	s.pub.mu.Unlock()
	var list []ChainProblem
	for key, state := range chains {
		if len(state.Problems) > 0 {
			list = append(list, ChainProblem{
				Service: key.Service, Datacenter: key.Datacenter,
				LastGood: state.LastGood, Problems: state.Problems,
			})
		}
	}
	slices.SortFunc(list, func(a, b ChainProblem) int {
		return cmp.Or(strings.Compare(a.Service, b.Service), strings.Compare(a.Datacenter, b.Datacenter))
	})
	return list
}

func typeStatus(t *session.TypeStatus) TypeStatus {
	out := TypeStatus{
		Type: t.Type.Name, State: string(t.Sync), Resources: t.Held,
		Sent: t.VersionSent, Acked: t.VersionAcked, SentAt: stamp(t.SentAt), AckedAt: stamp(t.AckedAt),
		Responses: t.Responses, Nacks: t.Nacks,
	}
	if t.Sync == session.Sent { // on its way; STALE if it takes long
		out.State = StateSynced
	}
	if t.Nack != nil {
		out.Nack = &NackStatus{Message: t.Nack.Message, Version: t.Nack.Version, Names: t.Nack.Names, At: t.Nack.At}
	}
	return out
}

func stamp(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
