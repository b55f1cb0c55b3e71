package chain

// Mesh is the mesh entry: what holds for all proxies of the mesh. There is one, named "mesh".
type Mesh struct {
	Header
	TransparentProxy MeshTransparentProxy
	// AllowEnablingPermissiveMutualTLS is what the MutualTLSMode permissive needs.
	AllowEnablingPermissiveMutualTLS bool `json:",omitempty"`
	// ValidateClusters lets Envoy refuse routes to clusters that do not exist.
	ValidateClusters bool         `json:",omitempty"`
	TLS              *MeshTLS     `json:",omitempty"`
	HTTP             *MeshHTTP    `json:",omitempty"`
	Peering          *MeshPeering `json:",omitempty"`
}

// MeshTransparentProxy is about proxies in transparent mode.
type MeshTransparentProxy struct {
	// MeshDestinationsOnly refuses connections to where no service of the mesh is.
	MeshDestinationsOnly bool `json:",omitempty"`
}

// MeshTLS is the TLS between proxies.
type MeshTLS struct {
	Incoming *MeshTLSParameters `json:",omitempty"`
	Outgoing *MeshTLSParameters `json:",omitempty"`
}

// MeshTLSParameters are those of one direction. Versions are spelled TLS_AUTO or TLSv1_0 to TLSv1_3, cipher
// suites as Go and the IANA spell them.
type MeshTLSParameters struct {
	TLSMinVersion string   `json:",omitempty"`
	TLSMaxVersion string   `json:",omitempty"`
	CipherSuites  []string `json:",omitempty"`
}

// MeshHTTP is about HTTP requests.
type MeshHTTP struct {
	// SanitizeXForwardedClientCert drops the header instead of adding to it.
	SanitizeXForwardedClientCert bool          `json:",omitempty"`
	Incoming                     *MeshIncoming `json:",omitempty"`
}

// MeshIncoming is about requests that come in from the mesh.
type MeshIncoming struct {
	RequestNormalization *RequestNormalization `json:",omitempty"`
}

// RequestNormalization is what is done to the paths and headers of requests before anything looks at them.
// The actions are Envoy's.
type RequestNormalization struct {
	InsecureDisablePathNormalization bool   `json:",omitempty"`
	MergeSlashes                     bool   `json:",omitempty"`
	PathWithEscapedSlashesAction     string `json:",omitempty"`
	HeadersWithUnderscoresAction     string `json:",omitempty"`
}

// MeshPeering is about cluster peering.
type MeshPeering struct {
	PeerThroughMeshGateways bool `json:",omitempty"`
}
