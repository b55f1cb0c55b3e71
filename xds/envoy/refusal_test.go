package envoy

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/catenary-mesh/catenary/snapshot"
)

// Envoy refuses routes that answer with more than 4096 bytes, and the reason would not be seen.
func TestALongProblemFitsIntoAnAnswer(t *testing.T) {
	key := snapshot.RoutesKey{Name: "api"}
	config, _ := routes(key, snapshot.Routes{Key: key, Problem: "x" + strings.Repeat("é", 5000)})
	body := config.GetVirtualHosts()[0].GetRoutes()[0].GetDirectResponse().GetBody().GetInlineString()
	if len(body) > 4096 || !utf8.ValidString(body) || !strings.HasPrefix(body, "catenary: xé") {
		t.Errorf("the body has %d bytes: %.40q", len(body), body)
	}
}
