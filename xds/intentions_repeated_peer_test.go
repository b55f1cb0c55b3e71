package xds_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

var forbidden = []denial{
	{chain.IntentionHeader{Exact: "bad.1"}, []string{"bad.1"}},
	{chain.IntentionHeader{Exact: "bad", IgnoreCase: true}, []string{"bad", "BaD"}},
	{chain.IntentionHeader{Prefix: "bad"}, []string{"bad", "badly"}},
	{chain.IntentionHeader{Prefix: "bad", IgnoreCase: true}, []string{"BADLY"}},
	{chain.IntentionHeader{Suffix: "bad"}, []string{"bad", "not-bad"}},
	{chain.IntentionHeader{Contains: "bad"}, []string{"not-bad-at-all"}},
	{chain.IntentionHeader{Regex: "bad|b[0-9]+"}, []string{"bad", "b42"}},
	{chain.IntentionHeader{Regex: `\Qb.d`}, []string{"b.d"}},
	{chain.IntentionHeader{Present: true}, []string{"anything"}},
}

// denial is by the header x-role.
type denial struct {
	header chain.IntentionHeader
	values []string // each is denied alone
}

// around are values of a header that repeats, of which one is denied.
func around(bad string) [][]string {
	return [][]string{{bad}, {"good", bad}, {bad, "good"}, {"good", bad, "good"}, {bad, bad}, {"", bad}}
}

// denying is intentions of api that deny by a header, by what the default is, and allow the rest.
func denying(h chain.IntentionHeader) *chain.SourceIntention {
	h.Name = "x-role"
	return &chain.SourceIntention{Name: "api", Permissions: []*chain.IntentionPermission{
		{Action: chain.IntentionDeny, HTTP: &chain.IntentionHTTP{Header: []chain.IntentionHeader{h}}},
		{Action: chain.IntentionAllow, HTTP: &chain.IntentionHTTP{PathPrefix: "/"}},
	}}
}

// send sends a request of api to web, and returns its status.
func (m *mesh) send(roles ...string) (int, error) {
	transport := &http.Transport{TLSClientConfig: m.dialer("api"), DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(m.t.Context(), http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/", m.port), http.NoBody)
	if err != nil {
		return 0, err
	}
	req.Header["X-Role"] = roles
	resp, err := (&http.Client{Transport: transport, Timeout: 5 * time.Second}).Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// Envoy before 1.39 judges values of a header that repeats as one text, joined by commas, and so does gRPC: who sends
// another value with what is denied is denied all the same.
func TestADenialByAHeaderHoldsWhenTheHeaderRepeats(t *testing.T) {
	eachEnvoy(t, func(t *testing.T, v testenv.EnvoyVersion) {
		m := startMesh(t)
		web := testenv.StartBackend(t, "app")
		m.sidecar(facts.Proxy{LocalServicePort: web.Port, Config: map[string]any{"protocol": "http"}})
		m.envoy(v).WaitReady()
		for _, allow := range []bool{true, false} {
			m.store.Commit(func(tx *facts.Tx) { tx.DefaultIntention(allow) })
			for _, f := range forbidden {
				m.intend(denying(f.header))
				testenv.Eventually(t, 10*time.Second, func() error {
					bad, err := m.send(f.values[0])
					good, err2 := m.send()
					if err != nil || err2 != nil || bad != http.StatusForbidden || good != http.StatusOK {
						return fmt.Errorf("%+v: %d %d: %w", f.header, bad, good, errors.Join(err, err2))
					}
					return nil
				})
				for _, value := range f.values {
					for _, roles := range around(value) {
						if code, err := m.send(roles...); err != nil || code != http.StatusForbidden {
							t.Errorf("default allow %v: %+v: %q is answered %d, %v", allow, f.header, roles, code, err)
						}
					}
				}
				if code, err := m.send("good", "great"); err != nil || f.header.Present == (code == http.StatusOK) {
					t.Errorf("default allow %v: %+v: what is good is answered %d, %v", allow, f.header, code, err)
				}
				m.intend()
			}
		}
	})
}

func TestAGRPCServerDeniesByAHeaderThatRepeats(t *testing.T) {
	m := startMesh(t)
	m.entries(chain.KindServiceDefaults, &chain.ServiceDefaults{Header: chain.Header{Name: "web"}, Protocol: "grpc"})
	s := testenv.StartXDSServer(t, m.grpcBootstrap(m.certs()), "v1", true)
	serving(t, s)
	call := func(roles ...string) codes.Code {
		var headers []string
		for _, r := range roles {
			headers = append(headers, "x-role", r)
		}
		_, err := m.callAs("api", s.Port, "/shop.Shop/Get", withHeaders(headers))
		return status.Code(err)
	}
	for _, allow := range []bool{true, false} {
		m.store.Commit(func(tx *facts.Tx) { tx.DefaultIntention(allow) })
		for _, f := range forbidden {
			m.intend(denying(f.header))
			testenv.Eventually(t, 10*time.Second, func() error {
				if bad, good := call(f.values[0]), call(); bad != codes.PermissionDenied || good != codes.OK {
					return fmt.Errorf("%+v: %s %s", f.header, bad, good)
				}
				return nil
			})
			for _, value := range f.values {
				for _, roles := range around(value) {
					if code := call(roles...); code != codes.PermissionDenied {
						t.Errorf("default allow %v: %+v: %q ends as %s", allow, f.header, roles, code)
					}
				}
			}
			if code := call("good", "great"); f.header.Present == (code == codes.OK) {
				t.Errorf("default allow %v: %+v: what is good ends as %s", allow, f.header, code)
			}
		}
	}
	m.noNack()
}

// withHeaders sends headers with each call, name and value in turn.
func withHeaders(headers []string) grpc.DialOption {
	return grpc.WithUnaryInterceptor(func(ctx context.Context, method string, in, out any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		return invoke(metadata.AppendToOutgoingContext(ctx, headers...), method, in, out, cc, opts...)
	})
}
