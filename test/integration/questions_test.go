package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

// stranger is a client that knows nothing but what the server tells of itself, as grpcurl does.
type stranger struct {
	t     *testing.T
	conn  *grpc.ClientConn
	asks  reflectionpb.ServerReflection_ServerReflectionInfoClient
	files map[string]*descriptorpb.FileDescriptorProto
	known *protoregistry.Files
	*dynamicpb.Types
}

func newStranger(t *testing.T, addr string) *stranger {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	s := &stranger{t: t, conn: conn, files: map[string]*descriptorpb.FileDescriptorProto{}}
	if s.asks, err = reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// learn asks what a name means.
func (s *stranger) learn(name protoreflect.FullName) {
	s.t.Helper()
	err := s.asks.Send(&reflectionpb.ServerReflectionRequest{
		MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: string(name)},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	told, err := s.asks.Recv()
	if err != nil {
		s.t.Fatal(err)
	}
	if e := told.GetErrorResponse(); e != nil {
		s.t.Fatalf("what %s means: %v", name, e)
	}
	set := &descriptorpb.FileDescriptorSet{}
	for _, raw := range told.GetFileDescriptorResponse().GetFileDescriptorProto() {
		file := &descriptorpb.FileDescriptorProto{}
		if err := proto.Unmarshal(raw, file); err != nil {
			s.t.Fatal(err)
		}
		s.files[file.GetName()] = file
	}
	for _, file := range s.files {
		set.File = append(set.File, file)
	}
	if s.known, err = protodesc.NewFiles(set); err != nil {
		s.t.Fatal(err)
	}
	s.Types = dynamicpb.NewTypes(s.known)
}

// FindMessageByURL implements [protoregistry.MessageTypeResolver]: what is not known yet is asked for.
func (s *stranger) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	if m, err := s.Types.FindMessageByURL(url); err == nil {
		return m, nil
	}
	s.learn(protoreflect.FullName(url[strings.LastIndex(url, "/")+1:]))
	return s.Types.FindMessageByURL(url)
}

// call calls a method with JSON, and returns the answer as JSON.
func (s *stranger) call(ctx context.Context, service, method, request string) (string, error) {
	s.t.Helper()
	s.learn(protoreflect.FullName(service))
	d, err := s.known.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		s.t.Fatal(err)
	}
	m := d.(protoreflect.ServiceDescriptor).Methods().ByName(protoreflect.Name(method))
	in, out := dynamicpb.NewMessage(m.Input()), dynamicpb.NewMessage(m.Output())
	if err := (protojson.UnmarshalOptions{Resolver: s}).Unmarshal([]byte(request), in); err != nil {
		s.t.Fatal(err)
	}
	if err := s.conn.Invoke(ctx, "/"+service+"/"+method, in, out); err != nil {
		return "", err
	}
	text, err := protojson.MarshalOptions{Resolver: s, Multiline: true}.Marshal(out)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text), nil
}

const clientStatus = "envoy.service.status.v3.ClientStatusDiscoveryService"

func TestAGenericClientReadsWhatClientsHaveButNoSecrets(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "operator")
	if err := os.WriteFile(token, []byte("0p3r470r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := startFleet(t, false, "--admin-token-file", token)
	backend := testenv.StartBackend(t, "v1")
	f.http("web")
	f.withSidecar("web", backend.Port, backend)
	f.sidecar("web")
	f.register("api", backend)
	_, up := port(t, "api")
	f.envoy("shop", up).WaitReady()
	proxy(t, f.catenary, "web-sidecar-proxy", xds.StateSynced)

	s := newStranger(t, f.catenary.GRPCAddr)
	if _, err := s.call(t.Context(), clientStatus, "FetchClientStatus", `{}`); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a token: %v", err)
	}
	operator := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer 0p3r470r")
	text, err := s.call(operator, clientStatus, "FetchClientStatus", `{}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"web-sidecar-proxy"`, `"shop-1"`, `"SYNCED"`, `"ACKED"`, "BEGIN CERTIFICATE", "envoy.extensions.transport_sockets.tls.v3.Secret", backendPort(backend)} {
		if !strings.Contains(text, want) {
			t.Errorf("the answer lacks %s", want)
		}
	}
	for _, secret := range []string{"PRIVATE KEY", "0p3r470r"} {
		if strings.Contains(text, secret) {
			t.Errorf("the answer has %s", secret)
		}
	}
	var answer struct {
		Config []struct {
			GenericXdsConfigs []struct {
				TypeURL   string          `json:"typeUrl"`
				XdsConfig json.RawMessage `json:"xdsConfig"`
			} `json:"genericXdsConfigs"`
		} `json:"config"`
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatal(err)
	}
	keys := 0
	for _, c := range answer.Config {
		for _, g := range c.GenericXdsConfigs {
			if strings.Contains(string(g.XdsConfig), `"privateKey"`) {
				keys++
				// Bytes are base64 in JSON.
				if !strings.Contains(string(g.XdsConfig), "W3JlZGFjdGVkXQ==") && !strings.Contains(string(g.XdsConfig), "[redacted]") {
					t.Errorf("a key is not redacted: %s", g.XdsConfig)
				}
			}
		}
	}
	if keys == 0 {
		t.Error("no certificate is told of")
	}
	// A client asks about itself only.
	text, err = s.call(t.Context(), clientStatus, "FetchClientStatus",
		`{"node": {"id": "shop-1", "cluster": "shop", "metadata": {"catenary": {"service": "shop", "upstreams": []}}}, "exclude_resource_contents": true}`)
	if err != nil || !strings.Contains(text, `"shop-1"`) || strings.Contains(text, "web-sidecar-proxy") || strings.Contains(text, "xdsConfig") {
		t.Errorf("of itself a client is told %s, %v", text, err)
	}
	if log := f.catenary.Log(); strings.Contains(log, "0p3r470r") {
		t.Error("the operator's token is in the log")
	}
}

func backendPort(b *testenv.Backend) string { return fmt.Sprint(b.Port) }
