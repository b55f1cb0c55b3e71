package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/catenary-mesh/catenary/snapshot"
)

// The bounds of a blocking query.
const (
	defaultWait = 5 * time.Minute
	maxWait     = 10 * time.Minute
	// waitSlack is for writing the answer once the wait is over.
	waitSlack = 10 * time.Second
	// maxWaiting bounds how many queries wait at once.
	maxWaiting = 128
)

// refusal is an answer that says no, in Consul's words where Consul has any.
type refusal struct {
	status  int
	message string
}

// query is a question for a chain.
type query struct {
	key snapshot.ChainKey
	// index is 0 unless the answer may wait until it differs.
	index  uint64
	wait   time.Duration
	pretty bool
}

// discoveryChain answers as Consul's /v1/discovery-chain does, for Consul's clients.
func (s *Server) discoveryChain(w http.ResponseWriter, r *http.Request) {
	q, no := s.query(w, r)
	if no != nil {
		refuse(w, no)
		return
	}
	if q == nil {
		return
	}
	found, no := s.discover(w, r, q)
	if no == nil {
		no = found.refusal()
	}
	if no != nil {
		refuse(w, no)
		return
	}
	h := w.Header()
	h.Set("X-Consul-Index", strconv.FormatUint(found.Index, 10))
	h.Set("X-Consul-Knownleader", "true")
	h.Set("X-Consul-Lastcontact", "0")
	h.Set("X-Consul-Query-Backend", "blocking-query")
	writeAsConsul(w, map[string]any{"Chain": found.Chain}, q.pretty)
}

// explain answers the same question by saying how the chain came about.
func (s *Server) explain(w http.ResponseWriter, r *http.Request) {
	q, no := s.query(w, r)
	if no != nil {
		refuse(w, no)
		return
	}
	if q == nil {
		return
	}
	found := s.config.Discovery.Chain(q.key)
	if no := found.refusal(); no != nil {
		refuse(w, no)
		return
	}
	writeAsConsul(w, found.Explain(), q.pretty)
}

// query reads what is asked. It is nil without a refusal when all is said.
func (s *Server) query(w http.ResponseWriter, r *http.Request) (*query, *refusal) {
	q := &query{key: snapshot.ChainKey{Service: r.PathValue("service")}}
	switch r.Method {
	case http.MethodGet, http.MethodPost:
	case http.MethodOptions:
		w.Header().Set("Allow", allowed)
		return nil, nil
	default:
		w.Header().Set("Allow", allowed)
		return nil, &refusal{http.StatusMethodNotAllowed, "method " + r.Method + " not allowed"}
	}
	if message := q.parse(r.URL.Query()); message != "" {
		return nil, &refusal{http.StatusBadRequest, message}
	}
	if q.key.Service == "" {
		return nil, &refusal{http.StatusBadRequest, "Missing chain name"}
	}
	if dc := r.URL.Query().Get("dc"); dc != "" {
		if place, unknown := s.config.Discovery.place(); unknown == "" && dc != place.Datacenter {
			return nil, &refusal{http.StatusInternalServerError, "No path to datacenter"}
		}
	}
	if r.Method == http.MethodPost {
		var wrong string
		if q.key.Overrides, wrong = decodeOverrides(r.Body); wrong != "" {
			return nil, &refusal{http.StatusBadRequest, wrong}
		}
	}
	return q, nil
}

const allowed = "OPTIONS,GET,POST"

// parse reads the parameters; it returns what is wrong with them.
func (q *query) parse(params url.Values) string {
	if params.Get("ns") != "" {
		return `Invalid query parameter: "ns" - Namespaces are a Consul Enterprise feature`
	}
	if params.Get("partition") != "" {
		return `Invalid query parameter: "partition" - Partitions are a Consul Enterprise feature`
	}
	if params.Has("stale") && params.Has("consistent") {
		return "Cannot specify ?stale with ?consistent, conflicting semantics."
	}
	var err error
	if text := params.Get("index"); text != "" {
		if q.index, err = strconv.ParseUint(text, 10, 64); err != nil {
			return "Invalid index"
		}
	}
	if text := params.Get("wait"); text != "" {
		if q.wait, err = time.ParseDuration(text); err != nil {
			return "Invalid wait time"
		}
	}
	if q.wait <= 0 {
		q.wait = defaultWait
	}
	q.wait = min(q.wait, maxWait)
	q.pretty = params.Has("pretty")
	q.key.Datacenter = params.Get("compile-dc")
	return ""
}

// discover compiles the chain, and waits for it to change if that is asked for.
func (s *Server) discover(w http.ResponseWriter, r *http.Request, q *query) (Discovered, *refusal) {
	if q.index == 0 {
		return s.config.Discovery.Chain(q.key), nil
	}
	select {
	case s.waiting <- struct{}{}:
		defer func() { <-s.waiting }()
	default:
		return Discovered{}, &refusal{
			http.StatusTooManyRequests,
			"too many blocking queries wait already: ask again later, or without an index",
		}
	}
	// Where the deadline cannot be moved there is none: the writer is not that of a real server.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(q.wait + waitSlack))
	ctx, cancel := context.WithTimeout(r.Context(), q.wait)
	defer cancel()
	return s.config.Discovery.Wait(ctx, q.key, q.index), nil
}

// refusal is why there is no chain; nil when there is.
func (d *Discovered) refusal() *refusal {
	switch {
	case d.Unknown != "":
		return &refusal{http.StatusServiceUnavailable, "the entries are not known yet: " + d.Unknown}
	case d.Chain == nil && len(d.Problems) > 0:
		return &refusal{http.StatusInternalServerError, compileFailed + d.Problems[0].Message}
	case d.Chain == nil:
		return &refusal{http.StatusInternalServerError, compileFailed + "no chain"}
	}
	return nil
}

const compileFailed = "failed to compile discovery chain: "

// refuse says no in plain text, as Consul does.
func refuse(w http.ResponseWriter, no *refusal) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(no.status)
	_, _ = w.Write([]byte(no.message)) // a reader that has gone away needs no answer
}

func writeAsConsul(w http.ResponseWriter, v any, pretty bool) {
	body, err := json.Marshal(v)
	if err != nil {
		refuse(w, &refusal{http.StatusInternalServerError, "the chain cannot be printed as JSON"})
		return
	}
	if pretty {
		var out bytes.Buffer
		if json.Indent(&out, body, "", "    ") == nil {
			body = append(out.Bytes(), '\n')
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // as above
}
