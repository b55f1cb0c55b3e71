package xds

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/catenary-mesh/catenary/xds/session"
)

// ServerOptions returns what a gRPC server needs to be given to serve xDS: a codec that sends the
// bytes of resources as they are, shared by all streams, and decodes of requests what is read of them.
// Every other message passes through it to gRPC's own.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ForceServerCodecV2(codec{encoding.GetCodecV2(proto.Name)})}
}

type codec struct{ encoding.CodecV2 }

// Marshal implements [encoding.CodecV2].
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	r, ok := v.(*session.Response)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	chunks := r.Chunks()
	buffers := make(mem.BufferSlice, len(chunks))
	for i, chunk := range chunks {
		buffers[i] = mem.SliceBuffer(chunk)
	}
	return buffers, nil
}

// decoded is a message that decodes itself, of bytes that it does not keep.
type decoded interface{ decode(data []byte) error }

// Unmarshal implements [encoding.CodecV2].
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(decoded)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	return r.decode(buf.ReadOnlyData())
}
