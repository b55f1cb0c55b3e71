package destination

import (
	"cmp"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Origin is where the proxy runs that asks, as far as its context token says. The zero value says nothing.
type Origin struct {
	Namespace string
	// Node is the name of the node, by which its zone is found where Zone is empty.
	Node         string
	Region, Zone string
}

// The bounds of context tokens, which anyone can fill with anything.
const (
	maxToken  = 4096
	maxOrigin = 256
)

// ParseToken reads a context token: a JSON object, or ns:NAMESPACE as in old versions of Linkerd. Whatever
// else it is says nothing, and is no error.
func ParseToken(token string) Origin {
	if len(token) > maxToken {
		return Origin{}
	}
	if ns, ok := strings.CutPrefix(token, "ns:"); ok {
		return Origin{Namespace: ns}.bounded()
	}
	var t struct {
		Namespace string `json:"ns"`
		NodeName  string `json:"nodeName"`
		Node      string `json:"node"`
		Zone      string `json:"zone"`
		Region    string `json:"region"`
		Locality  struct {
			Region string `json:"region"`
			Zone   string `json:"zone"`
		} `json:"locality"`
	}
	if json.Unmarshal([]byte(token), &t) != nil {
		return Origin{}
	}
	return Origin{
		Namespace: t.Namespace, Node: cmp.Or(t.NodeName, t.Node),
		Zone: cmp.Or(t.Zone, t.Locality.Zone), Region: cmp.Or(t.Region, t.Locality.Region),
	}.bounded()
}

// bounded drops all of an origin of which a part is not what it can be.
func (o Origin) bounded() Origin {
	for _, part := range []string{o.Namespace, o.Node, o.Region, o.Zone} {
		if len(part) > maxOrigin || !utf8.ValidString(part) {
			return Origin{}
		}
	}
	return o
}
