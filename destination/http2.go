package destination

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/catenary-mesh/catenary/internal/proto/destination"
)

// ParseHTTP2 reads what connections of HTTP/2 to endpoints in the mesh are given, such as
// keepalive=10s,timeout=3s,while-idle. An empty text gives them nothing.
func ParseHTTP2(text string) (*pb.Http2ClientParams, error) {
	if text == "" {
		return nil, nil
	}
	p := &pb.Http2ClientParams{}
	for word := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(word), "=")
		if err := setHTTP2(p, name, value); err != nil {
			return nil, err
		}
	}
	if k := p.GetKeepAlive(); k != nil && (k.GetInterval() == nil || k.GetTimeout() == nil) {
		return nil, fmt.Errorf("keepalive and timeout go together: a proxy takes neither alone")
	}
	if f := p.GetFlowControl(); f != nil && !f.GetAdaptiveFlowControl() &&
		(f.GetInitialConnectionWindowSize() == 0 || f.GetInitialStreamWindowSize() == 0) {
		return nil, fmt.Errorf("connection-window and stream-window go together: a proxy takes neither alone")
	}
	return p, nil
}

func setHTTP2(p *pb.Http2ClientParams, name, value string) error {
	var err error
	switch name {
	case "keepalive":
		keepAlive(p).Interval, err = parseDuration(value)
	case "timeout":
		keepAlive(p).Timeout, err = parseDuration(value)
	case "while-idle":
		keepAlive(p).WhileIdle, err = parseFlag(value)
	case "connection-window":
		flowControl(p).InitialConnectionWindowSize, err = parseSize(value)
	case "stream-window":
		flowControl(p).InitialStreamWindowSize, err = parseSize(value)
	case "adaptive":
		flowControl(p).AdaptiveFlowControl, err = parseFlag(value)
	case "max-reset-streams":
		internals(p).MaxConcurrentResetStreams, err = parseSize(value)
	case "max-frame-size":
		internals(p).MaxFrameSize, err = parseSize(value)
	case "max-send-buffer":
		internals(p).MaxSendBufSize, err = parseSize(value)
	default:
		return fmt.Errorf("%q is none of keepalive, timeout, while-idle, connection-window, stream-window, adaptive, "+
			"max-reset-streams, max-frame-size, max-send-buffer", name)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func keepAlive(p *pb.Http2ClientParams) *pb.Http2ClientParams_KeepAlive {
	if p.KeepAlive == nil {
		p.KeepAlive = &pb.Http2ClientParams_KeepAlive{}
	}
	return p.KeepAlive
}

func flowControl(p *pb.Http2ClientParams) *pb.Http2ClientParams_FlowControl {
	if p.FlowControl == nil {
		p.FlowControl = &pb.Http2ClientParams_FlowControl{}
	}
	return p.FlowControl
}

func internals(p *pb.Http2ClientParams) *pb.Http2ClientParams_Internals {
	if p.Internals == nil {
		p.Internals = &pb.Http2ClientParams_Internals{}
	}
	return p.Internals
}

func parseDuration(text string) (*durationpb.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return nil, fmt.Errorf("%q is not a duration such as 10s", text)
	}
	return durationpb.New(d), nil
}

func parseSize(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q is not a number above 0", text)
	}
	return uint32(n), nil
}

func parseFlag(text string) (bool, error) {
	if text == "" {
		return true, nil
	}
	b, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("%q is neither true nor false", text)
	}
	return b, nil
}
