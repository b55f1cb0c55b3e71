package envoy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	httpwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/wasm/v3"
	directv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/direct_response/v3"
	netwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/wasm/v3"
	wasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/wasm/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/evict"
	"github.com/catenary-mesh/catenary/snapshot"
)

// The two halves of the module that ends what has come to be forbidden, in one machine: the tracker knows
// what is open and never changes, and the rules come to a chain that no connection takes, for Envoy does not
// configure a plugin again while a connection holds what it is to be configured with.
// docs/design/intentions.md has the experiments.
const (
	evictor = "catenary-evict"
	tracker = evictor + "-tracker"

	rootTracker = "tracker"
	rootRules   = "rules"

	wasmRuntime = "envoy.wasm.runtime.v8"
)

// EvictionNeeds are the extensions that an Envoy must have to end what has come to be forbidden: what runs the
// module, and the filters that it is. One that lacks any refuses a listener with the module.
func EvictionNeeds() []string {
	return []string{wasmRuntime, "envoy.filters.network.wasm", "envoy.filters.http.wasm"}
}

// plugin is a half of the module. If it fails Envoy goes on without it: who may enter is decided elsewhere.
func plugin(name, root string) *wasmv3.PluginConfig {
	return &wasmv3.PluginConfig{
		Name: name, RootId: root, FailurePolicy: wasmv3.FailurePolicy_FAIL_OPEN,
		Vm: &wasmv3.PluginConfig_VmConfig{VmConfig: &wasmv3.VmConfig{
			VmId: evictor, Runtime: wasmRuntime,
			Code: &corev3.AsyncDataSource{Specifier: &corev3.AsyncDataSource_Local{Local: inline(evict.Module())}},
		}},
	}
}

func trackConnections(snapshot.PublicListenerKey) proto.Message {
	return &netwasmv3.Wasm{Config: plugin(tracker, rootTracker)}
}

func trackRequests() proto.Message { return &httpwasmv3.Wasm{Config: plugin(tracker, rootTracker)} }

// evictionRules is the chain that no connection takes.
func evictionRules() *listenerv3.FilterChain {
	return &listenerv3.FilterChain{
		Name: evictor, FilterChainMatch: &listenerv3.FilterChainMatch{TransportProtocol: "none"},
		Filters: []*listenerv3.Filter{
			{Name: snapshot.EvictionConfig, ConfigType: &listenerv3.Filter_ConfigDiscovery{ConfigDiscovery: discovered(networkWasm)}},
			{
				Name:       "envoy.filters.network.direct_response", // Envoy wants something at the end
				ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pack(&directv3.Config{})},
			},
		},
	}
}

// eviction translates who may keep what is open.
func eviction(name string, e snapshot.Eviction) *corev3.TypedExtensionConfig {
	config := plugin(name, rootRules)
	config.Configuration = pack(wrapperspb.String(judgement(stays(e.Intentions))))
	return &corev3.TypedExtensionConfig{Name: name, TypedConfig: pack(&netwasmv3.Wasm{Config: config})}
}

// judgement is the text of rules. Where they are more than the module takes, it is without rights, so that
// whoever keeps some keeps what is open; and where they are still more, everyone does.
func judgement(rules []evict.Rule) string {
	text, err := evict.Text(rules)
	if err == nil {
		return text
	}
	rules = slices.Clone(rules)
	for n := range rules {
		rules[n].Rights = nil
	}
	if text, err = evict.Text(rules); err == nil {
		return text
	}
	text, _ = evict.Text([]evict.Rule{{Pattern: "*", Keep: true}})
	return text
}

// stays says of each source whether it may stay, and what it may do if that is not everything.
func stays(i snapshot.Intentions) []evict.Rule {
	var exact, rest []evict.Rule
	for _, rule := range i.Rules {
		r := evict.Rule{
			Pattern: patternOf(i, rule.Source), Keep: !i.DefaultAllow || len(rule.Permissions) > 0,
			Rights: rights(rule.Permissions, i.DefaultAllow),
		}
		if rule.Source != chain.WildcardName {
			exact = append(exact, r)
			continue
		}
		for _, name := range rule.Except {
			rest = append(rest, evict.Rule{Pattern: patternOf(i, name), Keep: i.DefaultAllow})
		}
		rest = append(rest, r)
	}
	return append(append(exact, rest...), evict.Rule{Pattern: "*", Keep: i.DefaultAllow})
}

// rights are what permissions allow, each but for what those before it deny. Where the default is to allow,
// so is what none of them is about.
func rights(permissions []*chain.IntentionPermission, rest bool) []evict.Right {
	if len(permissions) == 0 {
		return nil
	}
	var list []evict.Right
	var denied []string
	for _, p := range permissions {
		if p.Action == chain.IntentionAllow {
			list = append(list, evict.Right{Name: nameOf(p), But: slices.Clone(denied)})
		} else {
			denied = append(denied, nameOf(p))
		}
	}
	if rest {
		list = append(list, evict.Right{Name: "rest", But: denied})
	}
	return list
}

// nameOf is the same for permissions that are about the same requests.
func nameOf(p *chain.IntentionPermission) string {
	text, _ := json.Marshal(p.HTTP) // nothing in it can fail
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

func patternOf(i snapshot.Intentions, source string) string {
	prefix := fmt.Sprintf("spiffe://%s/ns/default/dc/", i.Key.TrustDomain)
	if source == chain.WildcardName {
		return prefix + "*"
	}
	return prefix + "*/svc/" + snapshot.NameInURI(source)
}
