package snapshot

// Dialect is what of xDS a client understands. The zero value is Envoy's.
type Dialect string

// The dialects. gRPC's differ by library.
const (
	DialectEnvoy      Dialect = ""
	DialectGRPCGo     Dialect = "grpc-go"
	DialectGRPCJava   Dialect = "grpc-java"
	DialectGRPCNode   Dialect = "grpc-node"
	DialectGRPCCore   Dialect = "grpc-core" // C++, Python, Ruby, PHP, C#
	DialectGRPCUnread Dialect = "grpc"      // of a library that is not known
)

// GRPC reports whether the client is an application with gRPC, and not a proxy.
func (d Dialect) GRPC() bool { return d != DialectEnvoy }

// Unhosted is in which form the library takes that there are no routes, so that calls fail at once as UNAVAILABLE.
type Unhosted bool

const (
	// Hosted is a virtual host without routes. The one of Node would wait if there were none.
	Hosted Unhosted = false
	// Hostless is no virtual host. The one of Java calls it an internal error if there is one.
	Hostless Unhosted = true
)

func (d Dialect) unhosted() Unhosted { return d == DialectGRPCJava }

// leastRequest reports whether the library can send to the endpoint with the fewest requests. Go and Java
// can; the others take what stands behind it on the list, which is round robin.
func (d Dialect) leastRequest() bool { return d == DialectGRPCGo || d == DialectGRPCJava }
