package chain

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// argumentChecks returns what is checked of the arguments of each built-in extension: the gist of
// what Consul checks, without the schemas of Envoy's resources. A check returns what is wrong.
func argumentChecks() map[string]func(map[string]any) string {
	return map[string]func(map[string]any) string{
		"builtin/lua":                 luaArguments,
		"builtin/aws/lambda":          lambdaArguments,
		"builtin/property-override":   overrideArguments,
		"builtin/wasm":                wasmArguments,
		"builtin/ext-authz":           authzArguments,
		"builtin/otel-access-logging": otelArguments,
	}
}

func (f *findings) extensions(list []EnvoyExtension) {
	checks := argumentChecks()
	constraint := regexp.MustCompile(`^\s*(=|!=|>|<|>=|<=|~>)?\s*v?\d+(\.\d+)*(-[0-9A-Za-z.~-]+)?(\+[0-9A-Za-z.~-]+)?\s*$`)
	for i := range list {
		e, path := &list[i], at("EnvoyExtensions", i)
		for _, v := range [][2]string{{"ConsulVersion", e.ConsulVersion}, {"EnvoyVersion", e.EnvoyVersion}} {
			for part := range strings.SplitSeq(v[1], ",") {
				if v[1] != "" && !constraint.MatchString(part) {
					f.fault(CodeExtension, path+"."+v[0], "%q is not a version constraint; write one like \">= 1.2, < 2\"", v[1])
				}
			}
		}
		check := checks[e.Name]
		if check == nil {
			f.fault(CodeExtension, path+".Name", "%q is not a built-in extension; use one of %q", e.Name, slices.Sorted(maps.Keys(checks)))
			continue
		}
		if wrong := check(e.Arguments); wrong != "" {
			f.fault(CodeExtension, path+".Arguments", "%s", wrong)
		}
	}
}

func luaArguments(a map[string]any) string {
	proxy, _ := text(a, "ProxyType")
	listener, _ := text(a, "Listener")
	script, ok := text(a, "Script")
	switch {
	case proxy != "" && proxy != "connect-proxy" && proxy != "api-gateway":
		return "ProxyType must be connect-proxy or api-gateway"
	case listener != "inbound" && listener != "outbound":
		return "Listener must be inbound or outbound"
	case script == "" || !ok:
		return "Script is missing"
	}
	return ""
}

func lambdaArguments(a map[string]any) string {
	if arn, _ := text(a, "ARN"); arn == "" {
		return "ARN is missing"
	}
	return ""
}

func overrideArguments(a map[string]any) string {
	switch patches := argument(a, "Patches").(type) {
	case map[string]any:
		if len(patches) > 0 {
			return connectProxyOnly(a)
		}
	case []any:
		for _, p := range patches {
			if m, ok := p.(map[string]any); ok && len(m) > 0 {
				return connectProxyOnly(a)
			}
		}
	}
	return "Patches needs at least one patch"
}

func wasmArguments(a map[string]any) string {
	protocol, _ := text(a, "Protocol")
	listener, _ := text(a, "ListenerType")
	switch {
	case protocol != protocolTCP && protocol != "http":
		return "Protocol must be tcp or http"
	case listener != "inbound" && listener != "outbound":
		return "ListenerType must be inbound or outbound"
	case argument(a, "PluginConfig") == nil:
		return "PluginConfig is missing"
	}
	return connectProxyOnly(a)
}

func authzArguments(a map[string]any) string {
	config, _ := argument(a, "Config").(map[string]any)
	grpc, http := hasTarget(config, "GrpcService"), hasTarget(config, "HttpService")
	if grpc == http {
		return "Config needs exactly one of GrpcService and HttpService, with a Target"
	}
	return connectProxyOnly(a)
}

func otelArguments(a map[string]any) string {
	config, _ := argument(a, "Config").(map[string]any)
	if !hasTarget(config, "GrpcService") {
		return "Config needs a GrpcService with a Target"
	}
	return connectProxyOnly(a)
}

func connectProxyOnly(a map[string]any) string {
	if proxy, _ := text(a, "ProxyType"); proxy != "" && proxy != "connect-proxy" {
		return "ProxyType must be connect-proxy"
	}
	return ""
}

// hasTarget reports whether a service with a target is configured.
func hasTarget(config map[string]any, name string) bool {
	service, _ := argument(config, name).(map[string]any)
	target, _ := argument(service, "Target").(map[string]any)
	return len(target) > 0
}

// argument finds an argument, however its name is spelled: ProxyType, proxytype or proxy_type.
func argument(a map[string]any, name string) any {
	if v, ok := a[name]; ok {
		return v
	}
	for _, key := range slices.Sorted(maps.Keys(a)) {
		if strings.EqualFold(strings.ReplaceAll(key, "_", ""), name) {
			return a[key]
		}
	}
	return nil
}

// text reads a text, or a list of one.
func text(a map[string]any, name string) (string, bool) {
	switch v := argument(a, name).(type) {
	case nil:
		return "", true
	case string:
		return v, true
	case []any:
		if len(v) == 1 {
			s, ok := v[0].(string)
			return s, ok
		}
	}
	return "", false
}
