package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/catenary-mesh/catenary/internal/bootstrap"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/render"
	"github.com/catenary-mesh/catenary/snapshot"
	"github.com/catenary-mesh/catenary/xds"
)

func newTranslate() *cobra.Command {
	t := &translation{}
	var from sourceFlags
	format := render.NewFormat(render.FormatJSON, render.FormatYAML)
	cmd := &cobra.Command{
		Use:   "translate PROXY",
		Short: "Print the Envoy resources a proxy would get",
		Long: `Print the Envoy resources that a proxy would get from a server on the same source.

PROXY is the ID of a registered sidecar, or with --upstream the name of a proxy that brings its
upstreams in its bootstrap, as catenary bootstrap envoy writes it. What it would not get, and why, goes
to stderr, and the exit code is then 1.

A registered sidecar is shown as if it had its certificate; certificates and keys are never printed.`,
		Example: "  catenary translate web --upstream api:9191 --from examples/shop",
		Args:    exactly("PROXY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			t.proxy = args[0]
			if err := t.parse(); err != nil {
				return err
			}
			r, err := from.once(cmd, t.wants)
			if err != nil {
				return err
			}
			return t.print(cmd, format.String(), r)
		},
	}
	from.register(cmd)
	formatFlag(cmd, format)
	flags := cmd.Flags()
	flags.StringVar(&t.service, "service", "", "the `service` the proxy speaks for (default for a registered sidecar: found by its ID; with --upstream: PROXY)")
	flags.StringArrayVar(&t.upstreamTexts, "upstream", nil, "what the proxy reaches: `"+bootstrap.UpstreamForm+"`; may be repeated")
	return cmd
}

// translation is which proxy is asked about.
type translation struct {
	proxy, service string
	upstreamTexts  []string
	upstreams      []snapshot.Upstream
}

func (t *translation) parse() error {
	for _, text := range t.upstreamTexts {
		u, err := bootstrap.ParseUpstream(text)
		if err != nil {
			return err
		}
		t.upstreams = append(t.upstreams, snapshot.Upstream{
			Service: u.Service, Datacenter: u.Datacenter, BindAddress: u.BindAddress, BindPort: u.BindPort,
		})
	}
	return nil
}

// wants asks for what the proxy's plan needs.
func (t *translation) wants(r reading) (needs []facts.Topic, missing string) {
	client, needs := t.client(r)
	result, err := t.translate(r, client)
	if err != nil {
		return nil, "" // it is said when the result is printed
	}
	for _, topic := range needs {
		if !r.Known(topic) {
			missing = r.Why(facts.ID{Topic: topic})
		}
	}
	needs = append(needs, result.Plan.Topics()...)
	return needs, cmp.Or(missing, unmet(r, result.Plan))
}

// unmet is why a topic of the plan is not known yet.
func unmet(r reading, plan *snapshot.Plan) string {
	for _, topic := range plan.Topics() {
		if !r.Known(topic) {
			return r.Why(facts.ID{Topic: topic})
		}
	}
	return ""
}

func (t *translation) translate(r reading, client snapshot.Client) (xds.Translation, error) {
	return xds.Translate(snapshot.Config{
		Datacenter: r.datacenter, TrustDomain: r.trustDomain,
	}, r.View, client)
}

// client is the client that the proxy would be, and the registrations to look for it in.
func (t *translation) client(r reading) (snapshot.Client, []facts.Topic) {
	c := snapshot.Client{ID: t.proxy, Service: t.service, Upstreams: t.upstreams, Wasm: true}
	if len(t.upstreams) > 0 {
		c.Declared = true
		c.Service = cmp.Or(t.service, t.proxy)
		return c, nil
	}
	if t.service != "" {
		return c, nil
	}
	var needs []facts.Topic
	for _, service := range r.AllServices(r.datacenter) {
		// The ID of a sidecar begins with that of its service, which most often begins with its name.
		if !strings.HasPrefix(strings.ToLower(t.proxy), strings.ToLower(service)) {
			continue
		}
		topic := facts.Proxies(r.datacenter, service)
		needs = append(needs, topic)
		list, _ := r.Instances(topic)
		if slices.ContainsFunc(list, func(in *facts.Instance) bool { return in.Service.ID == t.proxy }) {
			c.Service = service
		}
	}
	return c, needs
}

// print writes the resources, and says what is not among them.
func (t *translation) print(cmd *cobra.Command, format string, r reading) error {
	client, _ := t.client(r)
	if client.Service == "" {
		return finding(fmt.Errorf("no sidecar with the ID %s is registered with a service whose name it begins with: give --service, or --upstream for a proxy that is not registered", t.proxy))
	}
	result, err := t.translate(r, client)
	if err != nil {
		return err
	}
	lacks := lacks(result.Plan)
	for _, line := range append(notes(result.Plan), lacks...) {
		fmt.Fprintf(cmd.ErrOrStderr(), "catenary: %s\n", line)
	}
	if err := writeTranslation(cmd.OutOrStdout(), format, result); err != nil {
		return err
	}
	if len(lacks) > 0 {
		return found()
	}
	return nil
}

// notes is what is likely a mistake, although the proxy gets everything there is.
func notes(plan *snapshot.Plan) []string {
	var list []string
	for _, u := range plan.Parts {
		for _, note := range u.Notes {
			list = append(list, u.Name+": "+note)
		}
	}
	return list
}

// lacks is what keeps the proxy from getting everything.
func lacks(plan *snapshot.Plan) []string {
	var list []string
	for _, whole := range []string{plan.Unregistered, plan.Hold} {
		if whole != "" {
			return append(list, whole)
		}
	}
	for _, u := range plan.Parts {
		if u.Pending != "" {
			list = append(list, u.Name+" is pending: "+u.Pending)
		}
		for _, reason := range u.Missing {
			list = append(list, u.Name+": "+reason)
		}
		for _, p := range u.Problems {
			list = append(list, u.Name+": "+p.String())
		}
	}
	return list
}

func writeTranslation(w io.Writer, format string, result xds.Translation) error {
	out := struct {
		Listeners, Routes, Clusters, Endpoints []json.RawMessage
	}{}
	for kind, list := range map[string]*[]json.RawMessage{
		snapshot.ProductListener: &out.Listeners, snapshot.ProductRoutes: &out.Routes,
		snapshot.ProductCluster: &out.Clusters, snapshot.ProductEndpoints: &out.Endpoints,
	} {
		*list = []json.RawMessage{}
		for _, message := range result.Resources[kind] {
			text, err := protojson.Marshal(message)
			if err != nil {
				return fmt.Errorf("print a %s: %w", kind, err)
			}
			*list = append(*list, text)
		}
	}
	if format == render.FormatYAML {
		return render.YAML(w, out)
	}
	return render.JSON(w, out)
}
