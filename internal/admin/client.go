package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Client reads from a [Server]. It is safe for concurrent use.
type Client struct {
	base string
	http *http.Client
}

// clientTimeout bounds a request: the server answers from memory.
const clientTimeout = 10 * time.Second

// NewClient returns a client of the server at an address, HOST:PORT or a URL.
func NewClient(addr string) *Client {
	if !strings.Contains(addr, "://") {
		addr = "http://" + addr
	}
	return &Client{
		base: strings.TrimSuffix(addr, "/"),
		http: &http.Client{Timeout: clientTimeout, Transport: &http.Transport{DisableKeepAlives: true}},
	}
}

// RefusedError is an answer of the server that says no.
type RefusedError struct {
	// Status is that of HTTP.
	Status int
	// Message is the server's own.
	Message string
}

// Error implements error.
func (e *RefusedError) Error() string { return e.Message }

// Proxies lists the connected clients, or those with an ID where one is given.
func (c *Client) Proxies(ctx context.Context, id string) ([]Proxy, error) {
	path := "/api/v1/proxies"
	if id != "" {
		path += "/" + segment(id)
	}
	var list []Proxy
	return list, c.get(ctx, path, &list)
}

// Resources lists what the streams of a client were sent, oldest first.
func (c *Client) Resources(ctx context.Context, id string) ([]ProxyResources, error) {
	var list []ProxyResources
	return list, c.get(ctx, "/api/v1/resources/"+segment(id), &list)
}

// Endpoints lists the instances of a service.
func (c *Client) Endpoints(ctx context.Context, service string) (Endpoints, error) {
	var e Endpoints
	return e, c.get(ctx, "/api/v1/endpoints/"+segment(service), &e)
}

// Problems lists what is wrong with the configuration.
func (c *Client) Problems(ctx context.Context) ([]Problem, error) {
	var list []Problem
	return list, c.get(ctx, "/api/v1/problems", &list)
}

// Watches lists what the source follows.
func (c *Client) Watches(ctx context.Context) ([]Watch, error) {
	var list []Watch
	return list, c.get(ctx, "/api/v1/watches", &list)
}

// segment is a name as one segment of a path. A segment of dots alone would lead elsewhere.
func segment(name string) string {
	if name == "." || name == ".." {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.PathEscape(name)
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 256 << 20

func (c *Client) get(ctx context.Context, path string, v any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, http.NoBody)
	if err != nil {
		return fmt.Errorf("the admin address is no address: %w", err)
	}
	status, body, err := c.do(req)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return refused(c.base+path, status, body)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("what answers at %s is not a catenary: %w", c.base+path, err)
	}
	return nil
}

func refused(at string, status int, body []byte) error {
	var said struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &said) != nil || said.Error == "" {
		said.Error = fmt.Sprintf("what answers at %s is not a catenary: status %d", at, status)
	}
	return &RefusedError{Status: status, Message: said.Error}
}
