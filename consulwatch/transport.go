package consulwatch

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/consul/api"
)

// transport is the connections to Consul. It sees which protocol they speak: over HTTP/2 a
// connection carries many queries, over HTTP/1.1 one.
type transport struct {
	base        atomic.Pointer[http.Transport]
	multiplexed atomic.Bool
	most        int64  // what is read of an answer
	onProtocol  func() // called when multiplexed has changed
}

// headerKey is the context key of where the headers of the answer are to be put. Consul's client does
// not hand them out, and skips some when another that it expects is missing; a missing sign that
// something was hidden is not to be had by accident.
type headerKey struct{}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.base.Load().RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if to, ok := req.Context().Value(headerKey{}).(*http.Header); ok {
		*to = resp.Header
	}
	t.bound(resp)
	h2 := resp.ProtoMajor >= 2
	if t.multiplexed.CompareAndSwap(!h2, h2) && t.onProtocol != nil {
		t.onProtocol()
	}
	return resp, nil
}

// The most that is read of an answer. A row of a health answer has some 2 kB, and up to 4 kB more for the
// output of each check, so that tens of thousands of instances of one service fit.
const (
	mostAnswer = 256 << 20
	// mostReason bounds an answer that is not 200: it only says why.
	mostReason = 64 << 10
)

// errTooLarge is what reading an answer that is too large ends with.
var errTooLarge = errors.New("the answer is too large")

// bound bounds what is read of an answer.
func (t *transport) bound(resp *http.Response) {
	if resp.StatusCode != http.StatusOK {
		resp.Body = &boundedBody{ReadCloser: resp.Body, left: mostReason, end: io.EOF}
		return
	}
	resp.Body = &boundedBody{ReadCloser: resp.Body, left: t.most, end: errTooLarge}
}

// boundedBody is a body that ends with an error when more than what is left of it is read.
type boundedBody struct {
	io.ReadCloser
	left int64
	end  error
}

// Read implements [io.Reader].
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		// An answer of just that size has ended, which only a read tells.
		if n, err := b.ReadCloser.Read(p[:min(len(p), 1)]); n == 0 {
			return 0, err
		}
		return 0, b.end
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// closeIdle closes the connections that no query uses.
func (t *transport) closeIdle() { t.base.Load().CloseIdleConnections() }

// replace has the queries that come use the connections of another transport.
func (t *transport) replace(by *transport) {
	t.base.Swap(by.base.Load()).CloseIdleConnections()
}

// connect makes the client, on connections of our own, and returns its configuration, completed: with the
// token and the certificates that the files hold. It connects to nothing.
func connect(cfg *api.Config, connections int) (*api.Client, *transport, *api.Config, error) {
	if cfg == nil {
		cfg = api.DefaultConfig()
	}
	if err := checkAddress(cfg.Address); err != nil {
		return nil, nil, nil, err
	}
	files := filesOf(cfg)
	held, err := files.read()
	if err != nil {
		return nil, nil, nil, err
	}
	return connectBy(cfg, held, connections)
}

// connectBy is connect with what was read already.
func connectBy(cfg *api.Config, held credentials, connections int) (*api.Client, *transport, *api.Config, error) {
	own := *cfg
	own.HttpClient, own.TLSConfig, own.Token, own.TokenFile = nil, held.tls, held.token, ""
	own.Transport = &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:   true,
		TLSClientConfig:     held.secure,
		MaxConnsPerHost:     connections, // else a dial that an idle connection overtook is one more
		MaxIdleConnsPerHost: connections,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second,
	}
	client, err := api.NewClient(&own)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("the configuration of Consul's client: %w", err)
	}
	own.TLSConfig, own.Token = held.tls, held.token // the client may have completed them by files
	t := &transport{most: mostAnswer}
	base, ok := own.HttpClient.Transport.(*http.Transport)
	if !ok {
		return nil, nil, nil, fmt.Errorf("consul's client does not use the transport it is given")
	}
	t.base.Store(base)
	own.HttpClient.Transport = t // the client shares the pointer
	return client, t, &own, nil
}

// checkAddress refuses what Consul's client would take for an address, and only fail to connect to. Empty
// means the default.
func checkAddress(address string) error {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		scheme, rest = "http", address
	}
	if address == "" || scheme == "unix" {
		return nil
	}
	u, err := url.Parse("http://" + rest)
	if strings.Contains(rest, "@") {
		return errors.New("the address of Consul holds a user or a password, which it must not: give a token in CONSUL_HTTP_TOKEN")
	}
	if err != nil || u.Host == "" || scheme != "http" && scheme != "https" {
		return fmt.Errorf("the address of Consul is %q: want HOST:PORT, a URL of http or https, or unix:///PATH", address)
	}
	return nil
}
