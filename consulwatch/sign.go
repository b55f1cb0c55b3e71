package consulwatch

import (
	"cmp"
	"os"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/internal/identity"
)

// Issuer is where the certificates of services come from. Create one with [Source.Issuer].
type Issuer struct {
	identity.Issuer
	// Way says in words which way it is.
	Way   string
	close func()
}

// Issuer returns the issuer of a configuration: the gRPC port of Consul at an address, else at
// CONSUL_GRPC_ADDR, which signs what we make keys for; without either the agent, which makes the keys
// too. It is not chosen by what answers: who is to know the keys is for the operator to say. It connects
// to nothing.
func (s *Source) Issuer(address string) (*Issuer, error) {
	address = cmp.Or(address, os.Getenv(api.GRPCAddrEnvName))
	if address == "" {
		return &Issuer{Issuer: s.AgentIssuer(), Way: "Consul's agent at " + s.address, close: func() {}}, nil
	}
	signer, err := s.Signer(address)
	if err != nil {
		return nil, err
	}
	return &Issuer{Issuer: identity.Signing(signer), Way: "Consul's gRPC port at " + signer.address, close: signer.Close}, nil
}

// Close closes the connections that are the issuer's own.
func (i *Issuer) Close() { i.close() }
