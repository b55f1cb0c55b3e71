package admin

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/journey"
	"github.com/catenary-mesh/catenary/snapshot"
)

// Journey answers a question, waiting a few seconds for facts that nobody has needed so far. last is the chain
// in force where the entries do not compile any more; nil for none.
func (a *Asker) Journey(ctx context.Context, cfg snapshot.Config, q journey.Question, last *chain.Chain) (j journey.Journey, err error) {
	a.await(ctx, func(v facts.View) []facts.Topic {
		var needs []facts.Topic
		j, needs, err = journey.Make(cfg, v, q, last)
		return needs
	})
	return j, err
}

// journey says what becomes of a request: /api/v1/explain/SERVICE.
func (s *Server) journey(w http.ResponseWriter, r *http.Request) {
	params := r.URL.Query()
	q, err := journey.Words{
		Service: r.PathValue("service"), Datacenter: params.Get("dc"), Kind: params.Get("kind"),
		Method: params.Get("method"), Path: params.Get("path"),
		Headers: params["header"], Query: params["query"], Without: params["without"],
	}.Question()
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	if s.config.Journey == nil {
		fail(w, http.StatusNotFound, "this server explains nothing")
		return
	}
	j, err := s.config.Journey(r.Context(), q)
	unknown := (*journey.UnknownTargetError)(nil)
	switch {
	case errors.As(err, &unknown):
		fail(w, http.StatusBadRequest, "without: "+err.Error())
	case err != nil:
		fail(w, http.StatusServiceUnavailable, err.Error())
	default:
		answer(w, j)
	}
}

// Journey asks what becomes of a request. What the server cannot make sense of is a [RefusedError] with status
// 400, what it does not know yet has 503.
func (c *Client) Journey(ctx context.Context, w journey.Words) (journey.Journey, error) {
	params := url.Values{"header": w.Headers, "query": w.Query, "without": w.Without}
	for name, value := range map[string]string{"dc": w.Datacenter, "kind": w.Kind, "method": w.Method, "path": w.Path} {
		if value != "" {
			params.Set(name, value)
		}
	}
	var j journey.Journey
	return j, c.get(ctx, "/api/v1/explain/"+segment(w.Service)+"?"+params.Encode(), &j)
}
