// Package certs_test runs applications that have no proxy, and prove themselves by certificates that catenary keeps
// on disk.
package certs_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain looks for goroutines that are left. gRPC leaves those that watch the certificates for the control plane: they
// are the bootstrap's, which nothing closes.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("google.golang.org/grpc/credentials/tls/certprovider/pemfile.(*watcher).run"))
}

// patience is how long a change may take to arrive on a busy machine.
const patience = 15 * time.Second
