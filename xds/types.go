package xds

import (
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/catenary-mesh/catenary/snapshot"
	"github.com/catenary-mesh/catenary/xds/session"
)

// urls says as which resource type each kind of product is served.
var urls = map[string]string{
	snapshot.ProductCluster:   resourcev3.ClusterType,
	snapshot.ProductEndpoints: resourcev3.EndpointType,
	snapshot.ProductListener:  resourcev3.ListenerType,
	snapshot.ProductRoutes:    resourcev3.RouteType,
	snapshot.ProductSecret:    resourcev3.SecretType,
	snapshot.ProductExtension: resourcev3.ExtensionConfigType,
}

func typeOf(key snapshot.Key) *session.Type {
	t, ok := session.TypeByURL(urls[key.Product()])
	if !ok {
		panic("xds: no resource type for the product " + key.Product()) // a bug: both tables are constant
	}
	return t
}

// formName is a form of the protocol as status, log and metrics call it.
func formName(f session.Form) string {
	if f == session.Delta {
		return "delta"
	}
	return "sotw"
}
