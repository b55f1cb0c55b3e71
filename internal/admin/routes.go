package admin

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/pprof"
	"slices"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/hds/server"
)

// routes is every path that is served. All are read with GET, but for those that take overrides, the one that
// ends a freeze, and what checkers send where that is wanted.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", s.healthz)
	mux.HandleFunc("/readyz", s.readyz)
	mux.Handle("/metrics", s.config.Metrics)
	mux.HandleFunc("/api/v1/proxies", s.proxies)
	mux.HandleFunc("/api/v1/proxies/{id...}", s.proxy)
	mux.HandleFunc("/api/v1/resources/{id...}", s.resources)
	mux.HandleFunc("/api/v1/chains/{service}", s.chain)
	mux.HandleFunc("/api/v1/endpoints/{service}", s.endpoints)
	mux.HandleFunc("/api/v1/explain/{service}", s.journey)
	mux.HandleFunc("/api/v1/problems", s.problems)
	mux.HandleFunc("/api/v1/watches", s.watches)
	mux.HandleFunc("/api/v1/health", s.health)
	mux.HandleFunc("/api/v1/health/{service}", s.health)
	mux.HandleFunc("/api/v1/checkers", s.checkers)
	if s.config.Debug {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, http.StatusNotFound, "there is nothing at "+r.URL.Path)
	})
	all := http.NewServeMux()
	all.HandleFunc("/v1/discovery-chain/{service...}", s.discoveryChain)
	all.HandleFunc("/api/v1/explanations/{service...}", s.explain)
	all.HandleFunc("/api/v1/health/{service}/release", s.release)
	if s.config.HealthREST != nil {
		all.HandleFunc(server.PathV3, s.config.HealthREST)
		all.HandleFunc(server.PathV2, s.config.HealthREST)
	}
	all.Handle("/", onlyGet(mux))
	return all
}

func onlyGet(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			fail(w, http.StatusMethodNotAllowed, "this side only reads: use GET, not "+r.Method)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") }

func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	if s.draining.Load() {
		say(w, http.StatusServiceUnavailable, "draining: this server is about to end")
		return
	}
	ready, reason := s.config.Ready()
	switch {
	case !ready:
		say(w, http.StatusServiceUnavailable, "not ready: "+reason)
	case reason != "":
		say(w, http.StatusOK, "ready, but "+reason)
	default:
		say(w, http.StatusOK, "ready")
	}
}

func (s *Server) proxies(w http.ResponseWriter, _ *http.Request) {
	list := s.config.Proxies()
	if list == nil {
		list = []Proxy{}
	}
	answer(w, list)
}

func (s *Server) proxy(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	list := slices.DeleteFunc(slices.Clone(s.config.Proxies()), func(p Proxy) bool { return p.ID != id })
	if len(list) == 0 {
		fail(w, http.StatusNotFound, "no proxy with the ID "+id+" is connected")
		return
	}
	answer(w, list)
}

// resources tells what a client was sent, without what is secret in it.
func (s *Server) resources(w http.ResponseWriter, r *http.Request) {
	select {
	case s.printing <- struct{}{}:
		defer func() { <-s.printing }()
	default:
		fail(w, http.StatusTooManyRequests, "others are being told what proxies were sent: ask again")
		return
	}
	id := r.PathValue("id")
	var list []ProxyResources
	if s.config.Resources != nil {
		list = s.config.Resources(id)
	}
	if len(list) == 0 {
		fail(w, http.StatusNotFound, "no proxy with the ID "+id+" is connected")
		return
	}
	answer(w, list)
}

func (s *Server) chain(w http.ResponseWriter, r *http.Request) {
	c := s.config.Chain(r.PathValue("service"))
	if c.Problems == nil {
		c.Problems = []chain.Problem{}
	}
	answer(w, c)
}

func (s *Server) endpoints(w http.ResponseWriter, r *http.Request) {
	e := s.config.Endpoints(r.Context(), r.PathValue("service"))
	if e.Instances == nil {
		e.Instances = []Instance{}
	}
	answer(w, e)
}

func (s *Server) problems(w http.ResponseWriter, _ *http.Request) {
	list := s.config.Problems()
	if list == nil {
		list = []Problem{}
	}
	answer(w, list)
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // a reader that has gone away needs no answer
}

func answer(w http.ResponseWriter, v any) { write(w, http.StatusOK, v) }

func fail(w http.ResponseWriter, status int, message string) {
	write(w, status, map[string]string{"error": message})
}

func write(w http.ResponseWriter, status int, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error": "the answer cannot be printed as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // as above
}
