//go:build !e2e

package mesh_test

import "time"

// absence is how long a server is away.
const absence = 5 * time.Second
