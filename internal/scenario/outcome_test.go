package scenario

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/snapshot"
	"github.com/catenary-mesh/catenary/xds"
	"github.com/catenary-mesh/catenary/xds/envoy"
)

// productKinds is the order in which the outputs list products.
var productKinds = []string{
	snapshot.ProductListener, snapshot.ProductRoutes, snapshot.ProductCluster, snapshot.ProductEndpoints,
}

// meshKinds are those that only sidecars of a mesh have.
var meshKinds = []string{snapshot.ProductSecret, snapshot.ProductExtension}

// outcome runs a scenario and returns its files under want/, the shortest and most telling first.
func outcome(t *testing.T, ar *txtar.Archive) []txtar.File {
	t.Helper()
	w := readWorld(t, ar)
	view := w.store().View()
	cache := snapshot.NewCache(config())
	cache.Put(w.client.ID, w.client, view)
	translation, err := xds.Translate(config(), view, w.client)
	if err != nil {
		t.Fatal(err)
	}
	var out []txtar.File
	if len(w.calls) > 0 {
		sim, err := newSimulator(translation.Resources, w.doors(), w.names())
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, txtar.File{Name: wantDir + "calls", Data: answers(t, sim, w.calls)})
	}
	out = append(out, txtar.File{Name: wantDir + "plan", Data: describePlan(translation.Plan)})
	out = append(out, chains(t, cache)...)
	return append(out, txtar.File{Name: wantDir + "resources.json", Data: resources(t, translation.Resources)})
}

// chains are the compiled chains, each in its file. One that a downstream's overrides changed has their
// hash in its name.
func chains(t *testing.T, cache *snapshot.Cache) []txtar.File {
	t.Helper()
	var files []txtar.File
	for key, state := range cache.Chains() {
		if state.Chain == nil {
			continue
		}
		name := key.Service
		if key.Datacenter != config().Datacenter {
			name += "@" + key.Datacenter
		}
		if hash := state.Chain.CustomizationHash; hash != "" {
			name = hash + "~" + name
		}
		data, err := json.Marshal(state.Chain)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, txtar.File{Name: wantDir + "chain/" + name + ".json", Data: indent(t, data)})
	}
	slices.SortFunc(files, func(a, b txtar.File) int { return strings.Compare(a.Name, b.Name) })
	return files
}

// resources prints Envoy's resources by kind. The library's own form varies in white space on purpose.
func resources(t *testing.T, byKind map[string][]proto.Message) []byte {
	t.Helper()
	var buf bytes.Buffer
	buf.WriteString("{")
	kinds := slices.Clone(productKinds)
	for _, kind := range meshKinds {
		if len(byKind[kind]) > 0 {
			kinds = append(kinds, kind)
		}
	}
	for i, kind := range kinds {
		if i > 0 {
			buf.WriteString(",")
		}
		fmt.Fprintf(&buf, "%q: [", kind)
		for j, msg := range byKind[kind] {
			if j > 0 {
				buf.WriteString(",")
			}
			data, err := protojson.Marshal(msg)
			if err != nil {
				t.Fatal(err)
			}
			buf.Write(data)
		}
		buf.WriteString("]")
	}
	buf.WriteString("}")
	return indent(t, buf.Bytes())
}

func indent(t *testing.T, data []byte) []byte {
	t.Helper()
	var compact, out bytes.Buffer
	if err := json.Compact(&compact, data); err != nil {
		t.Fatal(err)
	}
	if err := json.Indent(&out, compact.Bytes(), "", "  "); err != nil {
		t.Fatal(err)
	}
	return append(out.Bytes(), '\n')
}

// encoded is what a client would be sent, as bytes.
func encoded(t *testing.T, w world) []string {
	t.Helper()
	delta := snapshot.NewCache(config()).Put(w.client.ID, w.client, w.store().View())
	plan := delta.Plans[w.client.ID]
	list := []string{string(describePlan(plan))}
	for _, ref := range plan.Resources() {
		if _, certificate := delta.Products[ref.Key].(facts.Leaf); certificate {
			continue // its key is nowhere here
		}
		r, err := envoy.Resource(ref, delta.Products[ref.Key])
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%s %s %x", r.Name, r.Version, r.Body))
	}
	return list
}

// describePlan prints a plan by upstream: each product with what its key holds beyond the name.
func describePlan(p *snapshot.Plan) []byte {
	var b strings.Builder
	line := func(indent int, parts ...string) {
		parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
		b.WriteString(strings.Repeat("  ", indent) + strings.Join(parts, " ") + "\n")
	}
	line(0, string(p.Kind), "client")
	note := func(indent int, label, text string) {
		if text != "" {
			line(indent, label+":", text)
		}
	}
	note(0, "hold", p.Hold)
	note(0, "unregistered", p.Unregistered)
	for _, u := range p.Parts {
		if u.Name == "identity" || u.Name == snapshot.PublicListener {
			line(0, u.Name)
		} else {
			line(0, "upstream", u.Name)
		}
		note(1, "pending", u.Pending)
		for _, m := range u.Missing {
			note(1, "missing", m)
		}
		for _, n := range u.Notes {
			note(1, "note", n)
		}
		for j := range u.Problems {
			note(1, u.Problems[j].Severity, describeProblem(&u.Problems[j]))
		}
		for _, kind := range slices.Concat(productKinds, meshKinds) {
			for _, ref := range u.Resources {
				if ref.Key.Product() == kind {
					line(1, append([]string{kind, ref.Name}, fields(ref)...)...)
				}
			}
		}
	}
	line(0, "needs")
	for _, topic := range p.Topics() {
		line(1, topic.String())
	}
	return []byte(b.String())
}

func describeProblem(p *chain.Problem) string {
	at := strings.Trim(p.Entry+" "+p.Field, " ")
	if at != "" {
		at += ": "
	}
	out := p.Code + " " + at + p.Message
	if p.Origin != "" {
		out += " (" + p.Origin + ")"
	}
	return out
}

// fields prints what a product's key holds beyond the name of the resource.
func fields(ref snapshot.Ref) []string {
	switch k := ref.Key.(type) {
	case snapshot.ListenerKey:
		return []string{"protocol=" + k.Protocol, chainField(k.Chain)}
	case snapshot.RoutesKey:
		return []string{chainField(k.Chain)}
	case snapshot.AggregateKey:
		return []string{"children=" + strings.Join(k.Children(), ",")}
	case snapshot.EndpointSetKey:
		return []string{
			"of=" + k.Topic.String(), text("filter", k.Filter),
			flagged("only-passing", k.OnlyPassing), flagged("wan", k.WAN), through(k.Gateways),
		}
	case snapshot.ClusterKey:
		out := []string{
			"protocol=" + k.Protocol, "connect-timeout=" + k.ConnectTimeout.String(), flagged("child", k.Child),
		}
		out = append(out, settings("balancer", k.LoadBalancer), settings("limits", k.Limits), settings("outlier", k.Outlier))
		if tls, ok := k.Transport.(snapshot.MutualTLS); ok {
			out = append(out, "peer="+tls.Peer)
		}
		return out
	}
	return inboundFields(ref.Key)
}

// inboundFields is [fields] for what only a sidecar of a mesh has.
func inboundFields(key snapshot.Key) []string {
	switch k := key.(type) {
	case snapshot.LeafKey:
		return []string{"of=" + k.Service}
	case snapshot.RootsKey:
		return nil
	case snapshot.PublicListenerKey:
		return []string{"protocol=" + k.Protocol, settings("limits", k.Limits), text("tls-from", k.TLS.MinVersion), settings("http", k.HTTP)}
	case snapshot.LocalClusterKey:
		at := k.At.SocketPath
		if at == "" {
			at = fmt.Sprintf("%s:%d", k.At.Address, k.At.Port)
		}
		return []string{"at=" + at, "protocol=" + k.Protocol, "connect-timeout=" + k.ConnectTimeout.String(), flagged("explicit", k.Explicit)}
	case snapshot.ExposedListenerKey:
		return []string{"path=" + k.Path, "protocol=" + k.Protocol, "cluster=" + k.Cluster, flagged("local-only", k.LocalOnly)}
	case snapshot.IntentionsKey:
		return []string{"of=" + k.Service, flagged("layer7", k.Layer7)}
	}
	return []string{fmt.Sprintf("%+v", key)}
}

// settings prints the fields of a structure that are set; nothing when none is.
func settings(name string, v any) string {
	var set []string
	fields := reflect.ValueOf(v)
	for i := range fields.NumField() {
		value := fields.Field(i).Interface()
		if limit, ok := value.(snapshot.Limit); ok && limit.Set {
			value = limit.Value
		} else if fields.Field(i).IsZero() {
			continue
		}
		set = append(set, fmt.Sprintf("%s:%v", fields.Type().Field(i).Name, value))
	}
	if len(set) == 0 {
		return ""
	}
	return name + "=" + strings.Join(set, ",")
}

func chainField(k snapshot.ChainKey) string {
	if k == (snapshot.ChainKey{}) {
		return ""
	}
	s := "chain=" + k.Service + "@" + k.Datacenter
	if overrides := settings("overrides", k.Overrides); overrides != "" {
		s += " " + overrides
	}
	return s
}

func through(gateways facts.Topic) string {
	if gateways == (facts.Topic{}) {
		return ""
	}
	return "through=" + gateways.String()
}

func text(name, value string) string {
	if value == "" {
		return ""
	}
	return fmt.Sprintf("%s=%q", name, value)
}

func flagged(name string, on bool) string {
	if on {
		return name
	}
	return ""
}
