package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/catenary-mesh/catenary/internal/admin"
	"github.com/catenary-mesh/catenary/internal/drift"
	"github.com/catenary-mesh/catenary/internal/render"
	"github.com/catenary-mesh/catenary/xds"
)

const (
	// looks is how often both sides are looked at before a difference is one: what is on its way is none.
	looks     = 4
	lookAgain = 500 * time.Millisecond
	// envoyTimeout bounds a question to an Envoy, and maxDump its answer.
	envoyTimeout = 10 * time.Second
	maxDump      = 256 << 20
)

// drifting holds what a proxy was sent against what its Envoy runs.
type drifting struct {
	id     string
	admin  *admin.Client
	envoy  string // host:port or URL of its admin API
	format string
}

func (d *drifting) run(cmd *cobra.Command) error {
	if d.id == "" {
		return errors.New("--diff is about one proxy: name its ID")
	}
	var list []drift.Difference
	for look := range looks {
		var err error
		if list, err = d.look(cmd.Context()); err != nil {
			return err
		}
		if len(list) == 0 || look == looks-1 {
			break
		}
		select {
		case <-cmd.Context().Done():
			return cmd.Context().Err()
		case <-time.After(lookAgain):
		}
	}
	return d.report(cmd.OutOrStdout(), list)
}

// look compares once. Of several streams with the ID that one counts which differs least: the others are of other
// Envoys.
func (d *drifting) look(ctx context.Context) ([]drift.Difference, error) {
	list, err := d.admin.Resources(ctx, d.id)
	if err != nil {
		return nil, refusedOrUnreachable(err)
	}
	running, err := d.running(ctx)
	if err != nil {
		return nil, err
	}
	if running.Node != "" && running.Node != d.id {
		return nil, finding(fmt.Errorf("the Envoy at %s is the proxy %q, and not %q: say with --envoy-admin where that one is", d.envoy, running.Node, d.id))
	}
	var least []drift.Difference
	for i := range list {
		if found := drift.Compare(sentTo(&list[i]), running); i == 0 || len(found) < len(least) {
			least = found
		}
	}
	return least, nil
}

// sentTo is what a stream was sent, as it is compared.
func sentTo(p *admin.ProxyResources) []drift.Sent {
	var list []drift.Sent
	for _, r := range p.Resources {
		if r.State == xds.ResourceAwaited {
			continue
		}
		s := drift.Sent{Type: r.Type, Name: r.Name, Content: r.Resource, Gone: r.State == xds.ResourceGone}
		if r.State == xds.ResourceRefused {
			s.Refused = "Envoy's reason: " + r.Reason
		}
		list = append(list, s)
	}
	return list
}

func (d *drifting) running(ctx context.Context) (drift.Running, error) {
	dump, err := d.get(ctx, "/config_dump?include_eds")
	if err != nil {
		return drift.Running{}, unreachable(err)
	}
	clusters, err := d.get(ctx, "/clusters?format=json")
	if err != nil {
		return drift.Running{}, unreachable(err)
	}
	running, err := drift.Parse(dump, clusters)
	if err != nil {
		return running, unreachable(fmt.Errorf("what answers at %s is no Envoy: %w", d.envoy, err))
	}
	return running, nil
}

// get reads a page of the Envoy's admin API.
func (d *drifting) get(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, envoyTimeout)
	defer cancel()
	base := d.envoy
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base, "/")+path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("--envoy-admin %s is no address: %w", d.envoy, err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("no Envoy answers at %s: say with --envoy-admin where its admin API is: %w", d.envoy, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxDump))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the answer of the Envoy at %s: %w", d.envoy, err)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("what answers at %s is no Envoy: status %d for %s", d.envoy, resp.StatusCode, path)
	}
	return body, nil
}

// report prints the differences, and nothing where there are none.
func (d *drifting) report(w io.Writer, list []drift.Difference) error {
	if d.format == render.FormatJSON {
		if list == nil {
			list = []drift.Difference{}
		}
		if err := render.JSON(w, list); err != nil {
			return err
		}
	} else {
		for _, one := range list {
			b := &render.Branch{Text: fmt.Sprintf("%s %s: %s", one.Type, one.Name, one.What), Notes: one.Details}
			if err := render.Tree(w, b); err != nil {
				return err
			}
		}
	}
	if len(list) > 0 {
		return found()
	}
	return nil
}
