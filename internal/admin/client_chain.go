package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/chain/explain"
	"github.com/catenary-mesh/catenary/snapshot"
)

// DiscoveryChain returns a chain as the entries are now. An empty datacenter is the server's own. A
// chain that does not compile is a [RefusedError] with status 500, one that is not known yet has 503.
func (c *Client) DiscoveryChain(ctx context.Context, key snapshot.ChainKey) (*chain.Chain, error) {
	var v struct{ Chain *chain.Chain }
	if err := c.askChain(ctx, "/v1/discovery-chain/", key, &v); err != nil {
		return nil, err
	}
	if v.Chain == nil {
		return nil, fmt.Errorf("what answers at %s is not a catenary: it has no chain", c.base)
	}
	return v.Chain, nil
}

// Explanation returns how a chain came about. Errors are those of [Client.DiscoveryChain].
func (c *Client) Explanation(ctx context.Context, key snapshot.ChainKey) (*explain.Explanation, error) {
	var v explain.Explanation
	if err := c.askChain(ctx, "/api/v1/explanations/", key, &v); err != nil {
		return nil, err
	}
	if v.Start == nil {
		return nil, fmt.Errorf("what answers at %s is not a catenary: it explains nothing", c.base)
	}
	return &v, nil
}

func (c *Client) askChain(ctx context.Context, path string, key snapshot.ChainKey, v any) error {
	body, err := json.Marshal(map[string]any{
		"OverrideProtocol":       key.Overrides.Protocol,
		"OverrideConnectTimeout": key.Overrides.ConnectTimeout.String(),
		"OverrideMeshGateway":    map[string]any{"Mode": key.Overrides.MeshGateway},
	})
	if err != nil {
		return err
	}
	at := c.base + path + url.PathEscape(key.Service) + "?compile-dc=" + url.QueryEscape(key.Datacenter)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("the admin address is no address: %w", err)
	}
	status, answer, err := c.do(req)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return &RefusedError{Status: status, Message: strings.TrimSpace(string(answer))}
	}
	if err := json.Unmarshal(answer, v); err != nil {
		return fmt.Errorf("what answers at %s is not a catenary: %w", at, err)
	}
	return nil
}

// do sends a request and reads the answer.
func (c *Client) do(req *http.Request) (status int, body []byte, err error) {
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("no catenary answers at %s: %w", c.base, err)
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return 0, nil, fmt.Errorf("the answer of %s: %w", req.URL, err)
	}
	return resp.StatusCode, body, nil
}
