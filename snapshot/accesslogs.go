package snapshot

import (
	"encoding/json"

	"github.com/catenary-mesh/catenary/chain"
)

// accessLogs is what proxy-defaults say of the access logs of all proxies. Such as Envoy would refuse count
// as none.
func accessLogs(e chain.Entries) chain.AccessLogs {
	d, ok := e.Entry(chain.KindProxyDefaults, chain.GlobalName).(*chain.ProxyDefaults)
	if !ok || d.AccessLogs == nil || !d.AccessLogs.Enabled {
		return chain.AccessLogs{}
	}
	logs := *d.AccessLogs
	var format map[string]any
	if logs.JSONFormat != "" && json.Unmarshal([]byte(logs.JSONFormat), &format) != nil || logs.Type == "file" && logs.Path == "" {
		return chain.AccessLogs{}
	}
	return logs
}
