package chain

import (
	"strconv"
	"time"

	"github.com/mitchellh/hashstructure"
)

// customization holds the overrides that changed something.
type customization struct {
	meshGateway    MeshGatewayMode
	protocol       string
	connectTimeout time.Duration
}

// hash is the customization hash, equal to Consul's, or empty when nothing was changed.
func (c customization) hash() string {
	if c == (customization{}) {
		return ""
	}
	// The hash covers the names of types, so this one is called as Consul's.
	type MeshGatewayConfig struct{ Mode MeshGatewayMode }
	sum, err := hashstructure.Hash(struct {
		OverrideMeshGateway    MeshGatewayConfig
		OverrideProtocol       string
		OverrideConnectTimeout time.Duration
	}{MeshGatewayConfig{c.meshGateway}, c.protocol, c.connectTimeout}, nil)
	if err != nil {
		// Cannot happen: every field is of a kind that can be hashed.
		return ""
	}
	digits := strconv.FormatUint(sum, 16)
	return digits[:min(8, len(digits))]
}
