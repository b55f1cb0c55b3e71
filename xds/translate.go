package xds

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/snapshot"
	"github.com/catenary-mesh/catenary/xds/envoy"
)

// Translation is what a client would be served.
type Translation struct {
	Plan *snapshot.Plan
	// Resources are Envoy's messages by kind of product, each list in the order of the plan.
	Resources map[string][]proto.Message
}

// Translate says what a client would be served, without a server and without waiting: what is
// pending is in the plan with its reason. A sidecar is shown as if it had its certificate.
func Translate(cfg snapshot.Config, view facts.View, client snapshot.Client) (Translation, error) {
	cfg.Dry = true
	delta := snapshot.NewCache(cfg).Put(client.ID, client, view)
	out := Translation{Plan: delta.Plans[client.ID], Resources: map[string][]proto.Message{}}
	for _, ref := range out.Plan.Resources() {
		product, ok := delta.Products[ref.Key]
		if _, certificate := product.(facts.Leaf); !ok || certificate {
			continue // a key is for nobody else's eyes
		}
		msg, _, err := envoy.Message(ref, product)
		if err != nil {
			return Translation{}, fmt.Errorf("proxy %s: %w", client.ID, err)
		}
		kind := ref.Key.Product()
		out.Resources[kind] = append(out.Resources[kind], msg)
	}
	return out, nil
}
