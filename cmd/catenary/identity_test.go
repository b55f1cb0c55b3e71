package main

import (
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/metrics"
)

func TestWithFilesThereAreNoCertificates(t *testing.T) {
	log, counts := hclog.NewNullLogger(), metrics.New("test")
	if _, err := (&identityFlags{grpcAddr: "127.0.0.1:8502"}).open(source{}, log, counts); err == nil || !strings.Contains(err.Error(), "--from") {
		t.Errorf("an address for certificates with files: %v", err)
	}
	c, err := (&identityFlags{}).open(source{}, log, counts)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*certificates{c, nil} {
		if _, _, ok := c.Pair(facts.Leaf{Service: "web"}); ok || len(c.problems()) > 0 {
			t.Error("there is a certificate, or a problem with one")
		}
		c.renew() // which changes nothing
		if err := c.run(t.Context(), facts.New()); err != nil {
			t.Error(err)
		}
	}
}
