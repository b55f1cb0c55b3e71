package envoy

import (
	"fmt"
	"testing"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/snapshot"
)

func TestConnectionsAndRequestsAreLoggedAsProxyDefaultsSay(t *testing.T) {
	const stream = "type.googleapis.com/envoy.extensions.access_loggers.stream.v3."
	for name, c := range map[string]struct {
		logs chain.AccessLogs
		want string // the sink
	}{
		"as text to stderr": {
			chain.AccessLogs{Enabled: true, Type: "stderr", TextFormat: "%START_TIME%"},
			`{"@type": "` + stream + `StderrAccessLog", "logFormat": {"textFormatSource": {"inlineString": "%START_TIME%\n"}}}`,
		},
		"as text with a line's end to a file": {
			chain.AccessLogs{Enabled: true, Type: "file", Path: "/tmp/a.log", TextFormat: "%START_TIME%\n"},
			`{"@type": "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog", "path": "/tmp/a.log",
			  "logFormat": {"textFormatSource": {"inlineString": "%START_TIME%\n"}}}`,
		},
		"as JSON to stdout": {
			chain.AccessLogs{Enabled: true, JSONFormat: `{"a": "%RESPONSE_CODE%", "b": {"c": 1}}`},
			`{"@type": "` + stream + `StdoutAccessLog", "logFormat": {"jsonFormat": {"a": "%RESPONSE_CODE%", "b": {"c": 1}}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := logged(publicListener(publicKey("tcp")), c.logs)
			if err != nil {
				t.Fatal(err)
			}
			wants(t, l.GetAccessLog()[0], &accesslogv3.AccessLog{}, fmt.Sprintf(
				`{"name": "Consul Listener Log", "filter": {"responseFlagFilter": {"flags": ["NR"]}}, "typedConfig": %s}`, c.want))
			tcp := &tcpv3.TcpProxy{}
			filters := l.GetFilterChains()[0].GetFilters()
			if err := filters[len(filters)-1].GetTypedConfig().UnmarshalTo(tcp); err != nil {
				t.Fatal(err)
			}
			wants(t, tcp.GetAccessLog()[0], &accesslogv3.AccessLog{}, fmt.Sprintf(`{"name": "Consul Listener Filter Log", "typedConfig": %s}`, c.want))
		})
	}
}

func TestListenersOfAllKindsLogUnlessTold(t *testing.T) {
	logs := chain.AccessLogs{Enabled: true, DisableListenerLogs: true}
	public := publicKey("http")
	public.AccessLogs = logs
	exposed := snapshot.ExposedListenerKey{Name: "x", Address: "10.0.0.9", Port: 1, Path: "/x", Cluster: "c", AccessLogs: logs}
	upstream := snapshot.ListenerKey{EnvoyID: "api", Bind: snapshot.Bind{Address: "127.0.0.1", Port: 1}, Protocol: "http", AccessLogs: logs}
	for _, key := range []snapshot.Key{public, exposed, upstream} {
		msg, _, err := Message(snapshot.Ref{Name: "l", Key: key}, key)
		if err != nil {
			t.Fatal(err)
		}
		l := listenerOf(t, msg)
		if n := len(connectionManager(t, l).GetAccessLog()); n != 1 || len(l.GetAccessLog()) != 0 {
			t.Errorf("%T has %d logs of requests and %d of connections", key, n, len(l.GetAccessLog()))
		}
	}
	if l, err := logged(publicListener(publicKey("http")), chain.AccessLogs{}); err != nil || len(connectionManager(t, l).GetAccessLog()) != 0 {
		t.Errorf("what is not to be logged is: %v", err)
	}
}
