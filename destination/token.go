package destination

import (
	"cmp"
	"encoding/json"
)

// Origin is where the proxy runs that asks, as far as its context token says. The zero value says nothing.
type Origin struct {
	// Node is the name of the node, by which its zone is found where Zone is empty.
	Node         string
	Region, Zone string
}

// The bounds of context tokens, which anyone can fill with anything.
const (
	maxToken  = 4096
	maxOrigin = 256
)

// ParseToken reads a context token: a JSON object. Whatever else it is, such as ns:NAMESPACE of old versions of Linkerd,
// says nothing, and is no error.
func ParseToken(token string) Origin {
	if len(token) > maxToken {
		return Origin{}
	}
	var t struct {
		NodeName string `json:"nodeName"`
		Node     string `json:"node"`
		Zone     string `json:"zone"`
		Region   string `json:"region"`
		Locality struct {
			Region string `json:"region"`
			Zone   string `json:"zone"`
		} `json:"locality"`
	}
	if json.Unmarshal([]byte(token), &t) != nil {
		return Origin{}
	}
	o := Origin{
		Node: cmp.Or(t.NodeName, t.Node),
		Zone: cmp.Or(t.Zone, t.Locality.Zone), Region: cmp.Or(t.Region, t.Locality.Region),
	}
	if max(len(o.Node), len(o.Region), len(o.Zone)) > maxOrigin {
		return Origin{}
	}
	return o
}
