//go:build e2e

package mesh_test

import "time"

// absence is how long a server is away.
const absence = time.Minute

// aftermath is how long is looked at what its return brings: agents tell what they know again only bit by bit.
const aftermath = 30 * time.Second
