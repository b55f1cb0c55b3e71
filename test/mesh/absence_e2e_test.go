//go:build e2e

package mesh_test

import (
	"testing"
	"time"
)

func TestAMinuteWithoutCatenary(t *testing.T) {
	t.Parallel()
	withoutCatenary(t, time.Minute)
}

func TestAMinuteWithoutConsul(t *testing.T) {
	t.Parallel()
	withoutConsul(t, time.Minute, 30*time.Second)
}
