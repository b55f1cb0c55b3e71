package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"golang.org/x/sync/errgroup"
)

// writers is how many registrations are written at a time.
const writers = 8

// Consul is the HTTP API of a Consul. [NewConsul] makes it.
type Consul struct {
	url, token string
	http       http.Client
}

// NewConsul returns the API at a URL, such as http://127.0.0.1:8500. The token may be empty.
func NewConsul(url, token string) *Consul {
	return &Consul{
		url: strings.TrimSuffix(url, "/"), token: token,
		http: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: writers}},
	}
}

// Close gives up the connections that are kept.
func (c *Consul) Close() { c.http.CloseIdleConnections() }

// Seed writes a catalog and returns how many registrations it has.
func (c *Consul) Seed(ctx context.Context, size Config) (int, error) {
	if err := size.Validate(); err != nil {
		return 0, err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	n := 0
	size.registrations(func(r registration) bool {
		group.Go(func() error { return c.register(ctx, r) })
		n++
		return ctx.Err() == nil
	})
	return n, group.Wait()
}

// SetHealth makes the only check of an instance's sidecar passing or critical.
func (c *Consul) SetHealth(ctx context.Context, i Instance, healthy bool) error {
	return c.register(ctx, i.health(healthy))
}

func (c *Consul) register(ctx context.Context, r registration) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	const path = "/v1/catalog/register"
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, c.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if c.token != "" {
		req.Header.Set("X-Consul-Token", c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("register on %s: %w", r.Node, err)
	}
	defer resp.Body.Close()
	const most = 4 << 10
	text, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("PUT %s: %s: %s", path, resp.Status, bytes.TrimSpace(text))
	}
	if err != nil {
		return fmt.Errorf("register on %s: %w", r.Node, err)
	}
	return nil
}
