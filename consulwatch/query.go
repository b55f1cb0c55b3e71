package consulwatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// answerTime is what Consul gets to answer a query that does not wait.
const answerTime = 30 * time.Second

// query is how a topic is asked for.
type query struct {
	path  string
	dc    string
	peer  string
	merge bool // with central configuration
	// filter is an expression about the rows that are wanted.
	filter string
}

// queryFor is the table of how each kind of topic is asked for. dc is empty for the agent's own.
func queryFor(topic facts.Topic, dc string) query {
	name := topic.Name // the client escapes it
	switch topic.Kind {
	case facts.TopicEntries:
		return query{path: "/v1/config/" + name, dc: dc}
	case facts.TopicServices:
		return query{path: "/v1/catalog/services", dc: dc}
	case facts.TopicHealth:
		return query{path: "/v1/health/service/" + name, dc: dc, peer: topic.Peer}
	case facts.TopicConnect:
		return query{path: "/v1/health/connect/" + name, dc: dc, peer: topic.Peer}
	case facts.TopicProxies:
		return query{path: "/v1/health/connect/" + name, dc: dc, merge: true}
	case facts.TopicRoots:
		return query{path: "/v1/connect/ca/roots", dc: dc}
	case facts.TopicDefaultIntention:
		return query{path: "/v1/agent/self"}
	case facts.TopicGateways:
		return query{path: "/v1/catalog/services", dc: dc, filter: onlyGateways}
	case facts.TopicVirtualIPs:
		return query{path: virtualIPsOf + name, dc: dc} // of each service alone
	case facts.TopicLeaf: // its certificate is signed, not followed
	case facts.TopicRights: // asked of the client's token, not followed
	case facts.TopicVerdicts: // not Consul's
	}
	return query{}
}

// String returns the query as an operator may repeat it.
func (q query) String() string {
	var params []string
	if q.dc != "" {
		params = append(params, "dc="+url.QueryEscape(q.dc))
	}
	if q.peer != "" {
		params = append(params, "peer="+url.QueryEscape(q.peer))
	}
	if q.merge {
		params = append(params, "merge-central-config")
	}
	if q.filter != "" {
		params = append(params, "filter="+url.QueryEscape(q.filter))
	}
	if len(params) == 0 {
		return "GET " + q.path
	}
	return "GET " + q.path + "?" + strings.Join(params, "&")
}

// answer is what Consul says of a topic.
type answer struct {
	body     json.RawMessage
	index    uint64 // at least 1
	backend  string
	filtered bool   // something was hidden from the token
	token    string // with which it was asked
	took     time.Duration
}

// ask sends a query: index 0 reads at once from the leader, another waits for something newer.
func (s *Source) ask(ctx context.Context, q query, index uint64, wait time.Duration) (answer, error) {
	a := answer{token: s.access.secret()}
	opts := &api.QueryOptions{Token: a.token, Datacenter: q.dc, Peer: q.peer, MergeCentralConfig: q.merge, Filter: q.filter}
	limit := answerTime
	if index == 0 {
		opts.RequireConsistent = true
	} else {
		opts.WaitIndex, opts.WaitTime = index, wait
		limit = wait + wait/16 + 10*time.Second // Consul adds up to a sixteenth
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var header http.Header
	ctx = context.WithValue(ctx, headerKey{}, &header)
	start := time.Now()
	if _, err := s.client.Raw().Query(q.path, &a.body, opts.WithContext(ctx)); err != nil {
		return answer{}, s.explain(q, err)
	}
	a.took = time.Since(start)
	return a, a.read(q, header)
}

// read takes from the headers what says how far the answer can be believed.
func (a *answer) read(q query, header http.Header) error {
	got, err := strconv.ParseUint(header.Get("X-Consul-Index"), 10, 64)
	if err != nil {
		return &failure{
			text:  fmt.Sprintf("%s: the answer has no X-Consul-Index: is there a proxy before Consul that drops headers?", q),
			cause: err,
		}
	}
	a.index = max(got, 1)
	a.backend = header.Get("X-Consul-Query-Backend")
	a.filtered = header.Get("X-Consul-Results-Filtered-By-ACLs") == "true"
	return nil
}

// failure is why a query failed, in words that stay the same while the cause does.
type failure struct {
	text string
	// server means that Consul as a whole gave no data: not only this topic is concerned.
	server bool
	// again means that the same question may get another answer without anybody's doing.
	again bool
	// limited means that Consul asked for patience; what is known of the index holds.
	limited bool
	// away means that there was no connection to anything.
	away bool
	// off means that Consul has no such thing, and that this is meant to be so.
	off   bool
	cause error
}

func (f *failure) Error() string { return f.text }

func (f *failure) Unwrap() error { return f.cause }

// explain turns an error of the client into a failure that says what to do.
func (s *Source) explain(q query, err error) *failure {
	var status api.StatusError
	if errors.As(err, &status) {
		return explainStatus(q, status)
	}
	f := &failure{cause: err, again: true}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax), errors.As(err, &kind):
		f.text = fmt.Sprintf("%s: the answer is not JSON (%v): is %s Consul's HTTP API?", q, err, s.address)
	case errors.Is(err, errTooLarge):
		f.text = fmt.Sprintf("%s: the answer is larger than %d MiB: if it is Consul's, keep the outputs of checks short "+
			"(check_output_max_size), or give the instances of one service several names", q, mostAnswer>>20)
	case errors.Is(err, context.DeadlineExceeded):
		f.server = true
		f.text = fmt.Sprintf("Consul at %s does not answer %s in time", s.address, q)
	default:
		f.server, f.away = true, true
		f.text = fmt.Sprintf("Consul at %s cannot be reached (%s)", s.address, rootCause(err))
	}
	return f
}

// explainStatus explains an answer that is not 200.
func explainStatus(q query, status api.StatusError) *failure {
	body := brief(status.Body)
	f := &failure{cause: status, again: status.Code >= http.StatusInternalServerError}
	said := fmt.Sprintf("%s: Consul answered %d (%s)", q, status.Code, body)
	switch {
	case status.Code == http.StatusForbidden && strings.Contains(body, "ACL not found"):
		f.server, f.again = true, true // a new token may not have reached all servers yet
		f.text = noSuchToken
	case status.Code == http.StatusForbidden || status.Code == http.StatusUnauthorized:
		f.text = said + ": the token needs " + neededRights
	case status.Code == http.StatusTooManyRequests:
		f.server, f.limited, f.again = true, true, true
		f.text = fmt.Sprintf("Consul answered 429 (%s): it limits requests or connections (limits.request_limits, limits.http_max_conns_per_client)", body)
	case strings.Contains(body, "Connect must be enabled"):
		f.off = true
		f.text = noConnect
	case strings.Contains(body, "No path to datacenter"):
		f.text = fmt.Sprintf("%s: Consul has no path to datacenter %q: it does not exist, or is not reachable now", q, q.dc)
	case status.Code == http.StatusServiceUnavailable, strings.Contains(body, "No cluster leader"):
		f.server = true
		f.text = fmt.Sprintf("Consul is not available (%d %s)", status.Code, body)
	default:
		f.text = said
	}
	return f
}

// mostSaid is how much is repeated of what Consul, or who answers in its place, says went wrong.
const mostSaid = 300

// brief returns the beginning of a text as one line.
func brief(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text[:min(len(text), 8*mostSaid)], "")), " ")
	if runes := []rune(text); len(runes) > mostSaid {
		return string(runes[:mostSaid]) + "…"
	}
	return text
}

// neededRights are the rules that the source's token needs to see everything.
const neededRights = `service_prefix "" { policy = "read" } and node_prefix "" { policy = "read" }`

// rootCause describes a network error without what differs at each attempt, such as local ports.
func rootCause(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		return fmt.Sprintf("%s: %v", op.Op, op.Err)
	}
	var in *url.Error
	if errors.As(err, &in) {
		return in.Err.Error()
	}
	return err.Error()
}

// noSuchToken says what is wrong with a token that Consul does not know, however it said so.
const noSuchToken = "Consul answered 403 (ACL not found): the token does not exist, or not any more: give a valid one in CONSUL_HTTP_TOKEN or CONSUL_HTTP_TOKEN_FILE"
