package session

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
)

// wildcardName is the name that stands for all there is of a type.
const wildcardName = "*"

// Request is one message of the client, in either form of the protocol.
type Request struct {
	// Node is guaranteed only in the first message of a stream.
	Node    *corev3.Node
	TypeURL string
	// Nonce is that of the response which the message answers, if any.
	Nonce string
	// Error is what the client has against that response; nil when it accepts it.
	Error *Refusal

	// Names (state of the world) are all the names asked for; Version is that of the last accepted
	// response, which on a new stream comes from an earlier one.
	Names   []string
	Version string

	// Subscribe, Unsubscribe and Initial (delta) are the change of the names asked for and, in the
	// first message of a type, the versions of what the client already holds.
	Subscribe, Unsubscribe []string
	Initial                map[string]string
}

// Refusal is the error of a NACK.
type Refusal struct {
	Code    int32
	Message string
}

// FromSotW returns a state-of-the-world message as a request. It shares the message's slices.
func FromSotW(m *discoveryv3.DiscoveryRequest) *Request {
	return &Request{
		Node: m.GetNode(), TypeURL: m.GetTypeUrl(), Nonce: m.GetResponseNonce(), Error: refusal(m.GetErrorDetail()),
		Names: m.GetResourceNames(), Version: m.GetVersionInfo(),
	}
}

// FromDelta returns a delta message as a request. It shares the message's slices and map.
func FromDelta(m *discoveryv3.DeltaDiscoveryRequest) *Request {
	return &Request{
		Node: m.GetNode(), TypeURL: m.GetTypeUrl(), Nonce: m.GetResponseNonce(), Error: refusal(m.GetErrorDetail()),
		Subscribe: m.GetResourceNamesSubscribe(), Unsubscribe: m.GetResourceNamesUnsubscribe(),
		Initial: m.GetInitialResourceVersions(),
	}
}

func refusal(s *status.Status) *Refusal {
	if s == nil {
		return nil
	}
	return &Refusal{Code: s.GetCode(), Message: s.GetMessage()}
}

// LimitError says that a stream asks for too much.
type LimitError struct {
	// Names is how many names the stream asks for, over all types, and Max how many it may.
	Names, Max int
}

// Error implements error, in words for the client.
func (e *LimitError) Error() string {
	return fmt.Sprintf("the stream asks for %d names, more than the %d allowed: ask with \"*\", or over several streams", e.Names, e.Max)
}

// check refuses names that no resource can have.
func (r *Request) check(t *Type, maxBytes int) error {
	for _, names := range [][]string{r.Names, r.Subscribe, r.Unsubscribe} {
		for _, name := range names {
			if err := checkName(name, maxBytes); err != nil {
				return fmt.Errorf("resource name of %s: %w", t.URL, err)
			}
		}
	}
	for name, version := range r.Initial {
		if err := checkName(name, maxBytes); err != nil {
			return fmt.Errorf("initial_resource_versions of %s: %w", t.URL, err)
		}
		if len(version) > maxBytes {
			return fmt.Errorf("initial_resource_versions of %s: the version of %q has %d bytes, more than the %d allowed", t.URL, name, len(version), maxBytes)
		}
	}
	if len(r.Version) > maxBytes {
		return fmt.Errorf("version_info of %s has %d bytes, more than the %d allowed", t.URL, len(r.Version), maxBytes)
	}
	return nil
}

// maxTypeURL bounds the type URLs in requests: a few that are not served are remembered.
const maxTypeURL = 1024

func checkTypeURL(url string) error {
	switch {
	case url == "":
		return errors.New("the request has no type_url: set it, on an aggregated stream too")
	case len(url) > maxTypeURL:
		return fmt.Errorf("type_url has %d bytes, more than the %d allowed", len(url), maxTypeURL)
	}
	return nil
}

func checkName(name string, maxBytes int) error {
	switch {
	case name == "":
		return errors.New("is empty: leave it out, or ask for \"*\"")
	case len(name) > maxBytes:
		return fmt.Errorf("%.64q... has %d bytes, more than the %d allowed", name, len(name), maxBytes)
	case !utf8.ValidString(name):
		return fmt.Errorf("%q is not UTF-8", name)
	case strings.ContainsRune(name, 0):
		return fmt.Errorf("%q holds a NUL", name)
	}
	return nil
}
