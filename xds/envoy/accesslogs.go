package envoy

import (
	"encoding/json"
	"strings"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	filelogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	streamlogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stream/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/catenary-mesh/catenary/chain"
)

// logged has a listener log its connections and requests: those that are forwarded or turned away, where that
// is decided, and those that no chain of filters takes.
func logged(l *listenerv3.Listener, logs chain.AccessLogs) (*listenerv3.Listener, error) {
	if !logs.Enabled {
		return l, nil
	}
	sink, err := logSink(logs)
	if err != nil {
		return nil, err
	}
	if !logs.DisableListenerLogs {
		l.AccessLog = []*accesslogv3.AccessLog{{
			Name: "Consul Listener Log", ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: pack(sink)},
			Filter: &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{
				ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{Flags: []string{"NR"}},
			}},
		}}
	}
	log := []*accesslogv3.AccessLog{{
		Name: "Consul Listener Filter Log", ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: pack(sink)},
	}}
	for _, c := range l.GetFilterChains() {
		for _, f := range c.GetFilters() {
			if err := logging(f, log); err != nil {
				return nil, err
			}
		}
	}
	return l, nil
}

// logging has a filter log, if it is one that forwards.
func logging(f *listenerv3.Filter, log []*accesslogv3.AccessLog) error {
	var hcm hcmv3.HttpConnectionManager
	var tcp tcpv3.TcpProxy
	switch packed := f.GetTypedConfig(); {
	case packed.MessageIs(&hcm):
		if err := packed.UnmarshalTo(&hcm); err != nil {
			return err
		}
		hcm.AccessLog = log
		f.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: pack(&hcm)}
	case packed.MessageIs(&tcp):
		if err := packed.UnmarshalTo(&tcp); err != nil {
			return err
		}
		tcp.AccessLog = log
		f.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: pack(&tcp)}
	}
	return nil
}

// logSink is where logs go to and what they look like.
func logSink(logs chain.AccessLogs) (proto.Message, error) {
	format, err := logFormat(logs)
	if err != nil {
		return nil, err
	}
	switch logs.Type {
	case "file":
		return &filelogv3.FileAccessLog{Path: logs.Path, AccessLogFormat: &filelogv3.FileAccessLog_LogFormat{LogFormat: format}}, nil
	case "stderr":
		return &streamlogv3.StderrAccessLog{AccessLogFormat: &streamlogv3.StderrAccessLog_LogFormat{LogFormat: format}}, nil
	}
	return &streamlogv3.StdoutAccessLog{AccessLogFormat: &streamlogv3.StdoutAccessLog_LogFormat{LogFormat: format}}, nil
}

func logFormat(logs chain.AccessLogs) (*corev3.SubstitutionFormatString, error) {
	if text := logs.TextFormat; text != "" {
		return &corev3.SubstitutionFormatString{Format: &corev3.SubstitutionFormatString_TextFormatSource{
			TextFormatSource: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{
				InlineString: strings.TrimSuffix(text, "\n") + "\n",
			}},
		}}, nil
	}
	fields := map[string]any{}
	if logs.JSONFormat != "" {
		if err := json.Unmarshal([]byte(logs.JSONFormat), &fields); err != nil {
			return nil, err
		}
	} else {
		for name, operator := range loggedFields {
			fields[name] = "%" + operator + "%"
		}
	}
	format, err := structpb.NewStruct(fields)
	return &corev3.SubstitutionFormatString{Format: &corev3.SubstitutionFormatString_JsonFormat{JsonFormat: format}}, err
}

// loggedFields is what is logged unless a format is given, under the names that Consul's sidecars have for it.
var loggedFields = map[string]string{
	"start_time": "START_TIME", "duration": "DURATION", "protocol": "PROTOCOL", "route_name": "ROUTE_NAME",
	"method": "REQ(:METHOD)", "authority": "REQ(:AUTHORITY)", "path": "REQ(X-ENVOY-ORIGINAL-PATH?:PATH)",
	"request_id": "REQ(X-REQUEST-ID)", "user_agent": "REQ(USER-AGENT)", "x_forwarded_for": "REQ(X-FORWARDED-FOR)",
	"response_code": "RESPONSE_CODE", "response_code_details": "RESPONSE_CODE_DETAILS", "response_flags": "RESPONSE_FLAGS",
	"bytes_received": "BYTES_RECEIVED", "bytes_sent": "BYTES_SENT",
	"connection_termination_details": "CONNECTION_TERMINATION_DETAILS", "requested_server_name": "REQUESTED_SERVER_NAME",
	"downstream_local_address": "DOWNSTREAM_LOCAL_ADDRESS", "downstream_remote_address": "DOWNSTREAM_REMOTE_ADDRESS",
	"upstream_cluster": "UPSTREAM_CLUSTER", "upstream_host": "UPSTREAM_HOST", "upstream_local_address": "UPSTREAM_LOCAL_ADDRESS",
	"upstream_service_time":             "RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)",
	"upstream_transport_failure_reason": "UPSTREAM_TRANSPORT_FAILURE_REASON",
}
