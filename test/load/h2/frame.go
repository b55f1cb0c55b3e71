package h2

import (
	"encoding/binary"

	"golang.org/x/net/http2"
)

// header begins every frame.
type header struct {
	length int
	kind   http2.FrameType
	flags  http2.Flags
	stream uint32
}

// parseHeader reads a header from at least headerSize bytes.
func parseHeader(b []byte) header {
	return header{
		length: int(b[0])<<16 | int(b[1])<<8 | int(b[2]),
		kind:   http2.FrameType(b[3]), flags: http2.Flags(b[4]),
		stream: binary.BigEndian.Uint32(b[5:]) & maxWindow,
	}
}

func appendHeader(b []byte, length int, kind http2.FrameType, flags http2.Flags, stream uint32) []byte {
	b = append(b, byte(length>>16), byte(length>>8), byte(length), byte(kind), byte(flags))
	return binary.BigEndian.AppendUint32(b, stream)
}

func appendSetting(b []byte, id http2.SettingID, value uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(b, uint16(id)), value)
}

func appendWindow(b []byte, stream uint32, more int) []byte {
	return binary.BigEndian.AppendUint32(appendHeader(b, 4, http2.FrameWindowUpdate, 0, stream), uint32(more))
}

// take deals with one frame. Frames of unknown types are passed over, as HTTP/2 has it.
func (c *Call) take(h header, payload []byte, f func([]byte) error) error {
	switch h.kind {
	case http2.FrameData:
		return c.data(h, payload, f)
	case http2.FrameHeaders, http2.FrameContinuation:
		return c.fields(h, payload)
	case http2.FrameSettings:
		return c.settings(h, payload)
	case http2.FrameWindowUpdate:
		return c.moreWindow(h, payload)
	case http2.FramePing:
		if h.flags.Has(http2.FlagPingAck) {
			return nil
		}
		c.out = appendHeader(c.out, len(payload), http2.FramePing, http2.FlagPingAck, 0)
		c.out = append(c.out, payload...)
	case http2.FrameRSTStream:
		if len(payload) != 4 {
			return broken("a RST_STREAM of %d bytes", len(payload))
		}
		return &Ended{codeUnavailable, "RST_STREAM " + http2.ErrCode(binary.BigEndian.Uint32(payload)).String()}
	case http2.FrameGoAway:
		if len(payload) < 8 {
			return broken("a GOAWAY of %d bytes", len(payload))
		}
		// A server that goes lets the streams it knows end by themselves; one that objects does not.
		if code := http2.ErrCode(binary.BigEndian.Uint32(payload[4:])); code != http2.ErrCodeNo {
			return &Ended{codeUnavailable, "GOAWAY " + code.String()}
		}
	default: // what a client need not know
	}
	return nil
}

// unpadded takes the padding from a DATA or HEADERS frame.
func unpadded(h header, payload []byte) ([]byte, error) {
	if !h.flags.Has(http2.FlagDataPadded) {
		return payload, nil
	}
	if len(payload) == 0 || int(payload[0]) >= len(payload) {
		return nil, broken("more padding than frame")
	}
	return payload[1 : len(payload)-int(payload[0])], nil
}

func (c *Call) data(h header, payload []byte, f func([]byte) error) error {
	if h.stream != streamID {
		return broken("DATA on stream %d", h.stream)
	}
	c.received += h.length
	if c.received >= c.window/2 {
		c.out = appendWindow(appendWindow(c.out, 0, c.received), streamID, c.received)
		c.received = 0
	}
	content, err := unpadded(h, payload)
	if err != nil {
		return err
	}
	if err := c.messages(content, f); err != nil {
		return err
	}
	if h.flags.Has(http2.FlagDataEndStream) {
		return &Ended{codeInternal, "no status was sent"}
	}
	return nil
}

// messages cuts gRPC's messages out of the stream's content. One that comes whole is not copied.
func (c *Call) messages(content []byte, f func([]byte) error) error {
	const prefix = 5
	partial := len(c.message) > 0
	if partial {
		c.message = append(c.message, content...)
		content = c.message
	}
	for len(content) >= prefix {
		length := int(binary.BigEndian.Uint32(content[1:]))
		switch {
		case content[0] != 0:
			return broken("a compressed message, which was not asked for")
		case length > maxMessage:
			return broken("a message of %d bytes", length)
		}
		if len(content) < prefix+length {
			break
		}
		if err := f(content[prefix : prefix+length]); err != nil {
			return err
		}
		content = content[prefix+length:]
	}
	if !partial || len(content) != len(c.message) {
		c.message = append(c.message[:0], content...)
	}
	return nil
}

func (c *Call) settings(h header, payload []byte) error {
	if h.flags.Has(http2.FlagSettingsAck) {
		return nil
	}
	if len(payload)%6 != 0 {
		return broken("SETTINGS of %d bytes", len(payload))
	}
	for ; len(payload) > 0; payload = payload[6:] {
		value := binary.BigEndian.Uint32(payload[2:])
		switch http2.SettingID(binary.BigEndian.Uint16(payload)) {
		case http2.SettingInitialWindowSize:
			if value > maxWindow {
				return broken("a window of %d bytes", value)
			}
			c.streamWindow += int64(value) - c.initialWindow
			c.initialWindow = int64(value)
		case http2.SettingMaxFrameSize:
			c.frame = int(min(value, maxFrame))
		default: // what is only of use with more calls
		}
	}
	c.ready = true
	c.out = appendHeader(c.out, 0, http2.FrameSettings, http2.FlagSettingsAck, 0)
	c.flush()
	return nil
}

func (c *Call) moreWindow(h header, payload []byte) error {
	if len(payload) != 4 {
		return broken("a WINDOW_UPDATE of %d bytes", len(payload))
	}
	more := int64(binary.BigEndian.Uint32(payload) & maxWindow)
	window := &c.connWindow
	if h.stream == streamID {
		window = &c.streamWindow
	}
	if *window += more; *window > maxWindow {
		return broken("a window of %d bytes", *window)
	}
	c.flush()
	return nil
}
