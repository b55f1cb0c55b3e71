package facts_test

import (
	"testing"

	"github.com/catenary-mesh/catenary/internal/facts"
)

func TestTopicsIgnoreTheCaseOfServices(t *testing.T) {
	if facts.Health("dc1", "Web") != facts.Health("dc1", "web") || facts.Connect("dc1", "WEB") != facts.Connect("dc1", "web") ||
		facts.Proxies("dc1", "Web") != facts.Proxies("dc1", "weB") {
		t.Error("one service has several topics")
	}
}
