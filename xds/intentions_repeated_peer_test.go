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
	h.Name = "X-Role" // names of headers do not mind their case
	return &chain.SourceIntention{Name: "api", Permissions: []*chain.IntentionPermission{
		{Action: chain.IntentionDeny, HTTP: &chain.IntentionHTTP{Header: []chain.IntentionHeader{h}}},
		{Action: chain.IntentionAllow, HTTP: &chain.IntentionHTTP{PathPrefix: "/"}},
	}}
}

// holds returns an error unless all that is denied is denied, and what has nothing of it is not. send sends values of
// the header, and says whether they pass.
func (d denial) holds(send func(roles []string) (bool, error)) error {
	check := func(roles []string, want bool) error {
		got, err := send(roles)
		if err == nil && got != want {
			err = fmt.Errorf("%+v: %q passes: %v, want %v", d.header, roles, got, want)
		}
		return err
	}
	for _, value := range d.values {
		for _, roles := range around(value) {
			if err := check(roles, false); err != nil {
				return err
			}
		}
	}
	return errors.Join(check(nil, true), check([]string{"good", "great"}, !d.header.Present))
}

// send sends a request of api to web, and says whether it passes.
func (m *mesh) send(roles []string) (passes bool, err error) {
	transport := &http.Transport{TLSClientConfig: m.dialer("api"), DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(m.t.Context(), http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/", m.port), http.NoBody)
	if err != nil {
		return false, err
	}
	req.Header["X-Role"] = roles
	resp, err := (&http.Client{Transport: transport, Timeout: 5 * time.Second}).Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode == http.StatusOK, err
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
				testenv.Eventually(t, 10*time.Second, func() error { return f.holds(m.send) })
			}
		}
	})
}

func TestAGRPCServerDeniesByAHeaderThatRepeats(t *testing.T) {
	m := startMesh(t)
	m.entries(chain.KindServiceDefaults, &chain.ServiceDefaults{Header: chain.Header{Name: "web"}, Protocol: "grpc"})
	s := testenv.StartXDSServer(t, m.grpcBootstrap(m.certs()), "v1", true)
	serving(t, s)
	call := func(roles []string) (bool, error) {
		var headers []string
		for _, r := range roles {
			headers = append(headers, "x-role", r)
		}
		_, err := m.callAs("api", s.Port, "/shop.Shop/Get", withHeaders(headers))
		if status.Code(err) == codes.PermissionDenied {
			return false, nil
		}
		return true, err
	}
	for _, allow := range []bool{true, false} {
		m.store.Commit(func(tx *facts.Tx) { tx.DefaultIntention(allow) })
		for _, f := range forbidden {
			m.intend(denying(f.header))
			testenv.Eventually(t, 10*time.Second, func() error { return f.holds(call) })
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
