package entry_test

import (
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/internal/entry"
)

func TestAnUnknownKeyIsAnErrorThatSaysWhere(t *testing.T) {
	f := entry.Decode("shop.hcl", []byte(`
Kind = "service-resolver"
Name = "api"
Subsets = {
  v1 = { Fliter = "Service.Meta.version == v1" }
}
`))
	if len(f.Entries) != 0 || len(f.Problems) != 1 {
		t.Fatalf("%+v", f)
	}
	p := f.Problems[0]
	if p.Origin != "shop.hcl:5" || p.Entry != "service-resolver/api" || p.Field != "Subsets.v1.Fliter" ||
		!strings.Contains(p.Message, "Filter?") {
		t.Errorf("%+v", p)
	}
}
