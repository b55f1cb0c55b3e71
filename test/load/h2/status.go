package h2

import (
	"strconv"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// status is what the headers and trailers say of a call.
type status struct {
	http, code, message string
}

func (s *status) field(f hpack.HeaderField) {
	switch f.Name {
	case ":status":
		s.http = f.Value
	case "grpc-status":
		s.code = f.Value
	case "grpc-message":
		s.message = f.Value
	}
}

// fields takes a HEADERS or CONTINUATION frame. The one that ends the stream is how the call ended.
func (c *Call) fields(h header, payload []byte) error {
	if h.kind == http2.FrameHeaders {
		var err error
		if payload, err = unpadded(h, payload); err != nil {
			return err
		}
		const priority = 5
		if h.flags.Has(http2.FlagHeadersPriority) {
			if len(payload) < priority {
				return broken("HEADERS of %d bytes with a priority", len(payload))
			}
			payload = payload[priority:]
		}
	}
	if c.block = append(c.block, payload...); len(c.block) > maxHeaders {
		return broken("headers of more than %d bytes", maxHeaders)
	}
	c.ending = c.ending || h.kind == http2.FrameHeaders && h.flags.Has(http2.FlagHeadersEndStream)
	if !h.flags.Has(http2.FlagHeadersEndHeaders) {
		return nil
	}
	if _, err := c.headers.Write(c.block); err != nil {
		return broken("headers: %v", err)
	}
	if err := c.headers.Close(); err != nil {
		return broken("headers: %v", err)
	}
	c.block = c.block[:0]
	return c.ended()
}

// ended returns how the call ended, or nil when it goes on.
func (c *Call) ended() error {
	if c.status.code != "" {
		code, err := strconv.ParseUint(c.status.code, 10, 32)
		if err != nil {
			return broken("grpc-status %q", c.status.code)
		}
		return &Ended{uint32(code), c.status.message}
	}
	if c.ending || c.status.http != "200" && c.status.http != "" {
		return &Ended{codeUnknown, "no grpc-status, HTTP status " + c.status.http}
	}
	return nil
}
