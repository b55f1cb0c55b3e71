package oracle_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// judge is the running Consul.
type judge struct {
	base   string
	client *http.Client
	// restart makes Consul forget everything.
	restart     func()
	trustDomain string
}

// newJudge returns the judge, for as many questions at once as there are workers. The caller closes it.
func newJudge(consul *testenv.Consul) (*judge, error) {
	j := &judge{
		base: "http://" + consul.HTTPAddr(),
		client: &http.Client{
			Timeout:   time.Minute,
			Transport: &http.Transport{MaxIdleConnsPerHost: workers},
		},
		restart: consul.Restart,
	}
	return j, j.prepare()
}

// close gives up the connections to Consul.
func (j *judge) close() { j.client.CloseIdleConnections() }

// prepare makes a new Consul ready.
func (j *judge) prepare() error {
	_, raw, err := j.call(http.MethodGet, "/v1/connect/ca/roots", nil)
	if err != nil {
		return err
	}
	var roots struct{ TrustDomain string }
	if err := json.Unmarshal(raw, &roots); err != nil {
		return fmt.Errorf("consul's roots: %w", err)
	}
	j.trustDomain = roots.TrustDomain
	// It is no entry of a chain, and decides whether entries that are may say so too.
	permissive := object{"Kind": "mesh", "AllowEnablingPermissiveMutualTLS": true}
	ok, raw, err := j.call(http.MethodPut, "/v1/config", permissive)
	if err == nil && !ok {
		err = fmt.Errorf("consul refuses the mesh entry: %s", raw)
	}
	return err
}

// call makes a request. An answer other than 200 is no error: the body then says what was refused.
func (j *judge) call(method, path string, body any) (ok bool, answer []byte, err error) {
	var sent io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return false, nil, err
		}
		sent = bytes.NewReader(raw)
	}
	req, err := http.NewRequest(method, j.base+path, sent)
	if err != nil {
		return false, nil, err
	}
	resp, err := j.client.Do(req)
	if err != nil {
		return false, nil, fmt.Errorf("consul does not answer, or has crashed: %w", err)
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode == http.StatusOK, answer, err
}

// apply writes or deletes an entry, and returns why it was refused, or nothing.
func (j *judge) apply(c change) (refusal string, err error) {
	method, path, body := http.MethodPut, "/v1/config", any(c.doc)
	if c.doc == nil {
		method, path, body = http.MethodDelete, "/v1/config/"+string(c.kind)+"/"+url.PathEscape(c.name), nil
	}
	ok, answer, err := j.call(method, path, body)
	if err != nil || ok {
		return "", err
	}
	return string(answer), nil
}

// chain asks for a chain, and returns it or why there is none.
func (j *judge) chain(q question) (compiled []byte, refusal string, err error) {
	method, body := http.MethodGet, q.body()
	if body != nil {
		method = http.MethodPost
	}
	path := "/v1/discovery-chain/" + url.PathEscape(q.Service)
	if q.Datacenter != "" {
		path += "?compile-dc=" + url.QueryEscape(q.Datacenter)
	}
	ok, answer, err := j.call(method, path, body)
	if err != nil {
		return nil, "", err
	}
	if !ok {
		return nil, string(answer), nil
	}
	var wrapped struct{ Chain json.RawMessage }
	if err := json.Unmarshal(answer, &wrapped); err != nil {
		return nil, "", fmt.Errorf("the chain of %s: %w", q.Service, err)
	}
	var compact bytes.Buffer
	err = json.Compact(&compact, wrapped.Chain)
	return compact.Bytes(), "", err
}

// stored returns the entries of a kind as Consul has them.
func (j *judge) stored(kind chain.Kind) ([]json.RawMessage, error) {
	_, raw, err := j.call(http.MethodGet, "/v1/config/"+string(kind), nil)
	if err != nil {
		return nil, err
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("consul's list of %s: %w: %s", kind, err, raw)
	}
	return list, nil
}

// clear deletes every entry. Some can go only after others, and some not at all, because Consul also
// accepts changes that break chains which it then defends: then Consul starts anew.
func (j *judge) clear() error {
	for last := -1; ; {
		left, err := j.clearSome()
		if err != nil || left == 0 {
			return err
		}
		if left == last {
			j.close()
			j.restart()
			return j.prepare()
		}
		last = left
	}
}

// clearSome tries to delete each entry once, and returns how many are left.
func (j *judge) clearSome() (left int, err error) {
	for _, kind := range slices.Backward(chain.AllKinds()) {
		list, err := j.stored(kind)
		if err != nil {
			return left, err
		}
		for _, raw := range list {
			var head struct{ Name string }
			if err := json.Unmarshal(raw, &head); err != nil {
				return left, err
			}
			if kind == chain.KindMesh {
				head.Name = chain.MeshName
			}
			refusal, err := j.apply(change{ref: ref{kind, head.Name}})
			if err != nil {
				return left, err
			}
			if refusal != "" {
				left++
			}
		}
	}
	return left, nil
}
