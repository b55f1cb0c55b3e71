package journey_test

import (
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/journey"
)

// FuzzQuestion asks whatever can be asked, in any words: some route takes every request.
func FuzzQuestion(f *testing.F) {
	f.Add("api", "GET", "/a?b=c", "x=1\ny", "q=2", "api")
	f.Add("API", "", "", "host=", "", "")
	f.Add("nobody", "get", "/", "=", "&", "\x00")
	match := func(m chain.HTTPMatch) chain.ServiceRoute {
		return chain.ServiceRoute{Match: &chain.RouteMatch{HTTP: &m}, Destination: &chain.RouteDestination{PrefixRewrite: "/"}}
	}
	s := store([]chain.Entry{http("api"), &chain.ServiceRouter{Header: chain.Header{Name: "api"}, Routes: []chain.ServiceRoute{
		match(chain.HTTPMatch{PathPrefix: "/a", CaseInsensitive: true, Methods: []string{"GET"}}),
		match(chain.HTTPMatch{PathRegex: "/b.*", Header: []chain.HeaderMatch{{Name: "x", Regex: ".+", Invert: true}}}),
		match(chain.HTTPMatch{QueryParam: []chain.QueryParamMatch{{Name: "q", Exact: "2"}}}),
	}}}, map[facts.Topic][]*facts.Instance{facts.Health("dc1", "api"): {instance("api-1", "10.0.0.1")}})
	f.Fuzz(func(t *testing.T, service, method, path, headers, query, without string) {
		w := journey.Words{Service: service, Method: method, Path: path, Headers: strings.Fields(headers), Query: strings.Fields(query)}
		if without != "" {
			w.Without = []string{without}
		}
		q, err := w.Question()
		if err != nil {
			return
		}
		j, _, err := journey.Make(config(), s.View(), q, nil)
		if err != nil || q.Request == nil || len(j.Routes) == 0 {
			return
		}
		taken, sum := 0, 0.0
		for _, r := range j.Routes {
			if r.Verdict == journey.Takes {
				taken++
			}
		}
		for _, s := range j.Traffic {
			sum += s.Percent
		}
		if service == "api" && (taken != 1 || sum < 99.9 || sum > 100.1) {
			t.Errorf("%d routes take %s, and %v %% of it end somewhere", taken, q.Request, sum)
		}
	})
}
