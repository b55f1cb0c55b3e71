package demo

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// upstream is one thing that web calls.
type upstream struct {
	name string
	addr string
	// every is the time between two requests.
	every time.Duration
}

// callers sends requests through Envoy, ten a second in all, until the context ends.
func callers(ctx context.Context, t *tally, p places) {
	var wg sync.WaitGroup
	for _, u := range []upstream{
		{"api", p.api, 125 * time.Millisecond},
		{"stock", p.stock, 500 * time.Millisecond},
	} {
		wg.Go(func() { call(ctx, t, u) })
	}
	wg.Wait()
}

// callTimeout bounds a request, so that one that hangs shows as an error.
const callTimeout = 2 * time.Second

// call sends requests to one upstream. What fails before the first answer is not counted: Envoy has
// not got its configuration then.
func call(ctx context.Context, t *tally, u upstream) {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: callTimeout}
	ticker := time.NewTicker(u.every)
	defer ticker.Stop()
	answered := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		who, ok := ask(ctx, client, "http://"+u.addr+"/")
		answered = answered || ok
		if answered && ctx.Err() == nil {
			t.add(time.Now(), u.name, who)
		}
	}
}

// ask sends one request and returns who answered, or why nobody did.
func ask(ctx context.Context, client *http.Client, url string) (who string, ok bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "no answer", false
	}
	resp, err := client.Do(req)
	if err != nil {
		return "no answer", false
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body) // only so that the connection can be used again
	if resp.StatusCode != http.StatusOK {
		return fmt.Sprintf("error %d", resp.StatusCode), false
	}
	return resp.Header.Get(header), true
}
