package xds

import (
	"cmp"
	"slices"
	"strings"
	"time"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/catenary-mesh/catenary/xds/session"
)

// streamsInOrder returns the streams in the order of their clients' IDs.
func (s *Server) streamsInOrder() []*stream {
	s.mu.Lock()
	list := make([]*stream, 0, len(s.streams))
	for st := range s.streams {
		list = append(list, st)
	}
	s.mu.Unlock()
	slices.SortFunc(list, func(a, b *stream) int {
		return cmp.Or(strings.Compare(a.client.ID, b.client.ID), a.connected.Compare(b.connected))
	})
	return list
}

// book returns what is known of each name on the stream. It holds the lock only to copy that.
func (st *stream) book(r *root) []session.Item {
	var o session.Offer
	if at, ok := r.seats.Get([]byte(st.id)); ok {
		o = offer{root: r, seat: at}
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.session.Book(o)
}

// clientConfig describes what the client of a stream has, and about how large that is.
func (st *stream) clientConfig(r *root, contents bool) (c *statusv3.ClientConfig, size int) {
	c = &statusv3.ClientConfig{Node: &corev3.Node{
		Id: st.client.ID, Cluster: st.client.Service,
		UserAgentVersionType: &corev3.Node_UserAgentVersion{UserAgentVersion: st.version},
	}}
	for _, it := range st.book(r) {
		g := generic(&it, contents)
		c.GenericXdsConfigs = append(c.GenericXdsConfigs, g)
		size += sizeOf(g)
	}
	return c, size + len(st.client.ID) + len(st.client.Service)
}

// sizeOf is about how many bytes the description of a resource has.
func sizeOf(g *statusv3.ClientConfig_GenericXdsConfig) int {
	const around = 64
	return around + len(g.TypeUrl)*2 + len(g.Name) + len(g.GetXdsConfig().GetValue()) +
		len(g.GetErrorState().GetFailedConfiguration().GetValue()) + len(g.GetErrorState().GetDetails())
}

// standings says how both sides of the protocol call what is known of a name.
var standings = map[session.Standing]struct {
	config statusv3.ConfigStatus
	client adminv3.ClientResourceStatus
}{
	session.Unsent:     {statusv3.ConfigStatus_NOT_SENT, adminv3.ClientResourceStatus_REQUESTED},
	session.Unanswered: {statusv3.ConfigStatus_STALE, adminv3.ClientResourceStatus_REQUESTED},
	session.Accepted:   {statusv3.ConfigStatus_SYNCED, adminv3.ClientResourceStatus_ACKED},
	session.Denied:     {statusv3.ConfigStatus_ERROR, adminv3.ClientResourceStatus_NACKED},
	session.Gone:       {statusv3.ConfigStatus_SYNCED, adminv3.ClientResourceStatus_DOES_NOT_EXIST},
}

// generic describes one name, with the contents of resources or without.
func generic(it *session.Item, contents bool) *statusv3.ClientConfig_GenericXdsConfig {
	stands := standings[it.Standing]
	g := &statusv3.ClientConfig_GenericXdsConfig{
		TypeUrl: it.Type.URL, Name: it.Name, VersionInfo: it.Version,
		ConfigStatus: stands.config, ClientStatus: stands.client,
	}
	if it.Resource != nil {
		g.LastUpdated = moment(it.Resource.PublishedAt)
	}
	if contents {
		g.XdsConfig = shown(it.Resource)
	}
	if it.Standing == session.Denied {
		g.ErrorState = &adminv3.UpdateFailureState{VersionInfo: it.Refused}
		if contents {
			g.ErrorState.FailedConfiguration = shown(it.Rejected)
		}
		if it.Nack != nil {
			g.ErrorState.Details, g.ErrorState.LastUpdateAttempt = it.Nack.Message, moment(it.Nack.At)
		}
	}
	return g
}

func moment(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// shown is a resource as others may see it: its own bytes, shared, unless it is a secret.
func shown(r *session.Resource) *anypb.Any {
	switch {
	case r == nil:
		return nil
	case r.Type.URL == session.SecretURL:
		return redacted(r.Name, r.Body)
	}
	return &anypb.Any{TypeUrl: r.Type.URL, Value: r.Body}
}
