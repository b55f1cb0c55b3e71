package envoy

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	netrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	netwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/wasm/v3"
	wasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/wasm/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/evict"
	"github.com/catenary-mesh/catenary/snapshot"
)

// evictor names the module, its machine and its root: as long as all stay the same, the open connections
// that it knows do.
const evictor = "catenary-evict"

// wasmRuntime runs the module.
const wasmRuntime = "envoy.wasm.runtime.v8"

// eviction translates which open connections are to end. A client that cannot run the module, and one whose
// rules are more than it takes, gets a filter that does nothing.
func eviction(name string, e snapshot.Eviction) *corev3.TypedExtensionConfig {
	nothing := &corev3.TypedExtensionConfig{Name: name, TypedConfig: pack(&netrbacv3.RBAC{StatPrefix: evictor})}
	if !e.Wasm {
		return nothing
	}
	text, err := evict.Text(stays(e.Intentions))
	if err != nil {
		return nothing
	}
	return &corev3.TypedExtensionConfig{Name: name, TypedConfig: pack(&netwasmv3.Wasm{Config: &wasmv3.PluginConfig{
		Name: evictor, RootId: evictor, FailOpen: true, // who may enter is decided elsewhere
		Configuration: pack(wrapperspb.String(text)),
		Vm: &wasmv3.PluginConfig_VmConfig{VmConfig: &wasmv3.VmConfig{
			VmId: evictor, Runtime: wasmRuntime,
			Code: &corev3.AsyncDataSource{Specifier: &corev3.AsyncDataSource_Local{Local: inline(evict.Module())}},
		}},
	}})}
}

// stays says of each source whether its connections may stay. They may if anything that comes by them is
// allowed: requests are judged one by one.
func stays(i snapshot.Intentions) []evict.Rule {
	var exact, rest []evict.Rule
	for _, rule := range i.Rules {
		keep := !i.DefaultAllow || len(rule.Permissions) > 0
		if rule.Source != chain.WildcardName {
			exact = append(exact, evict.Rule{Pattern: patternOf(i, rule.Source), Keep: keep})
			continue
		}
		for _, name := range rule.Except {
			rest = append(rest, evict.Rule{Pattern: patternOf(i, name), Keep: i.DefaultAllow})
		}
		rest = append(rest, evict.Rule{Pattern: patternOf(i, rule.Source), Keep: keep})
	}
	return append(append(exact, rest...), evict.Rule{Pattern: "*", Keep: i.DefaultAllow})
}

func patternOf(i snapshot.Intentions, source string) string {
	prefix := fmt.Sprintf("spiffe://%s/ns/default/dc/", i.Key.TrustDomain)
	if source == chain.WildcardName {
		return prefix + "*"
	}
	return prefix + "*/svc/" + source
}
