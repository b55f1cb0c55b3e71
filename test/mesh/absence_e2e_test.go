//go:build e2e

package mesh_test

import (
	"testing"
	"time"
)

func TestAMinuteWithoutCatenary(t *testing.T) { withoutCatenary(t, time.Minute) }

func TestAMinuteWithoutConsul(t *testing.T) { withoutConsul(t, time.Minute, 30*time.Second) }
