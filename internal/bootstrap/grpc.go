package bootstrap

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"time"
	"unicode"
)

// GRPCListenerTemplate is the name by which a gRPC server asks for its listener; %s is the address and port that it
// listens at.
const GRPCListenerTemplate = "grpc/server?xds.resource.listening_address=%s"

// GRPCProvider is what the certificates of an application are called in its bootstrap.
const GRPCProvider = "default"

// The files of a certificate in a directory, as file_watcher finds them.
const (
	LeafFile  = "leaf.pem"
	KeyFile   = "key.pem"
	RootsFile = "roots.pem"
)

// GRPCRefresh is how often an application looks whether its certificate is another. gRPC's own default of 10 min is
// longer than the others of a mesh take to use a new root.
const GRPCRefresh = 10 * time.Second

// GRPCConfig is what the bootstrap of an application with gRPC is made from. Service is required. All names of files
// are for the application, which may run elsewhere.
type GRPCConfig struct {
	// Service is the service that the application is.
	Service string
	// NodeID names it in the control plane's status; empty means the service's name and "-grpc".
	NodeID string
	// GRPCAddr is HOST:PORT of the control plane; empty means [DefaultGRPCAddr].
	GRPCAddr string
	// CertDir is the directory with the service's certificate; empty for an application outside the mesh.
	CertDir string
	// CAFile has the certificates to verify the control plane by; empty means plaintext.
	CAFile string
	// CertFile and KeyFile are shown to the control plane; empty means those of CertDir.
	CertFile, KeyFile string
}

type grpcBootstrapJSON struct {
	Servers   []grpcServerJSON            `json:"xds_servers"`
	Node      grpcNodeJSON                `json:"node"`
	Providers map[string]grpcProviderJSON `json:"certificate_providers,omitempty"`
	Template  string                      `json:"server_listener_resource_name_template"`
}

// grpcNodeJSON names a locality, empty as it is: grpc-js takes no node without.
type grpcNodeJSON struct {
	nodeJSON
	Locality object `json:"locality"`
}

type grpcServerJSON struct {
	URI      string          `json:"server_uri"`
	Creds    []grpcCredsJSON `json:"channel_creds"`
	Features []string        `json:"server_features"`
}

type grpcCredsJSON struct {
	Type   string         `json:"type"`
	Config *grpcFilesJSON `json:"config,omitempty"`
}

type grpcProviderJSON struct {
	Plugin string        `json:"plugin_name"`
	Config grpcFilesJSON `json:"config"`
}

type grpcFilesJSON struct {
	Cert    string `json:"certificate_file,omitempty"`
	Key     string `json:"private_key_file,omitempty"`
	CA      string `json:"ca_certificate_file"`
	Refresh string `json:"refresh_interval"`
}

// GRPC returns the bootstrap as indented JSON. Equal configurations give equal bytes. It holds no secret.
func GRPC(cfg GRPCConfig) ([]byte, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	server, err := parseEndpoint("the gRPC address", cfg.GRPCAddr)
	if err != nil {
		return nil, err
	}
	if server.port == 0 {
		return nil, fmt.Errorf("the gRPC address %q has port 0: name the port Catenary listens on", cfg.GRPCAddr)
	}
	whole := grpcBootstrapJSON{
		Servers: []grpcServerJSON{{URI: cfg.GRPCAddr, Creds: []grpcCredsJSON{cfg.creds()}, Features: []string{"xds_v3"}}},
		Node: grpcNodeJSON{
			nodeJSON: nodeJSON{ID: cfg.NodeID, Cluster: cfg.Service, Metadata: object{MetadataKey: cfg.metadata()}}, Locality: object{},
		},
		Template: GRPCListenerTemplate,
	}
	if cfg.CertDir != "" {
		whole.Providers = map[string]grpcProviderJSON{GRPCProvider: {
			Plugin: "file_watcher",
			Config: filesOf(cfg.in(LeafFile), cfg.in(KeyFile), cfg.in(RootsFile)),
		}}
	}
	return encode(whole)
}

func (c GRPCConfig) withDefaults() GRPCConfig {
	if c.NodeID == "" {
		c.NodeID = c.Service + "-grpc"
	}
	if c.GRPCAddr == "" {
		c.GRPCAddr = DefaultGRPCAddr
	}
	if c.CertDir != "" && c.CAFile != "" && c.CertFile == "" && c.KeyFile == "" {
		c.CertFile, c.KeyFile = c.in(LeafFile), c.in(KeyFile)
	}
	return c
}

func (c GRPCConfig) in(file string) string { return path.Join(c.CertDir, file) }

func (c GRPCConfig) validate() error {
	switch {
	case strings.ContainsFunc(c.NodeID, unicode.IsControl):
		return fmt.Errorf("the node ID %q has a control character", c.NodeID)
	case (c.CertFile == "") != (c.KeyFile == ""):
		return errors.New("a certificate to show to the control plane needs its key, and the key its certificate: name both")
	case c.CertFile != "" && c.CAFile == "":
		return errors.New("a certificate is shown over TLS only: name what the control plane is to be verified by")
	case path.Dir(c.CertFile) != path.Dir(c.KeyFile):
		return fmt.Errorf("the certificate %q and the key %q are in different directories: gRPC takes them from one only", c.CertFile, c.KeyFile)
	}
	return c.metadata().Validate()
}

// metadata is what the application says of itself. It is of the mesh where it has a certificate of the service.
func (c GRPCConfig) metadata() Metadata {
	return Metadata{Service: c.Service, Upstreams: []Upstream{}, Mesh: c.CertDir != ""}
}

// creds are how the application reaches the control plane. A bootstrap has no place for a token of Consul.
func (c GRPCConfig) creds() grpcCredsJSON {
	if c.CAFile == "" {
		return grpcCredsJSON{Type: "insecure"}
	}
	files := filesOf(c.CertFile, c.KeyFile, c.CAFile)
	return grpcCredsJSON{Type: "tls", Config: &files}
}

func filesOf(cert, key, ca string) grpcFilesJSON {
	return grpcFilesJSON{Cert: cert, Key: key, CA: ca, Refresh: fmt.Sprintf("%.0fs", GRPCRefresh.Seconds())}
}
