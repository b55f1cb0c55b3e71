//go:build e2e

package oracle_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/entry"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// row is a line of docs/codes.md: a code, and its severity.
var row = regexp.MustCompile(`(?m)^\| (CAT1[0-578]\d\d) \| (error|warning) \|`)

// TestCodesAreConsulsRefusals writes each entry of chain/testdata/validate to Consul: what is an error
// in docs/codes.md must be refused, and what is a warning stored. Every code must be shown by an entry.
func TestCodesAreConsulsRefusals(t *testing.T) {
	docs, err := os.ReadFile("../../docs/codes.md")
	if err != nil {
		t.Fatal(err)
	}
	severity := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(string(docs), -1) {
		severity[m[1]] = m[2]
	}
	j, err := newJudge(testenv.StartConsul(t))
	if err != nil {
		t.Fatal(err)
	}
	defer j.close()
	shown := map[string]bool{}
	for _, known := range knownEntries(t) {
		refusal, err := j.apply(write(known.doc))
		if err != nil {
			t.Fatal(err)
		}
		if isOfChain(refusal) {
			refusal = "" // the entry itself is not at fault
		}
		if stored := refusal == ""; stored != known.stored {
			t.Errorf("testdata says that Consul stores it: %v, and it says %q to %s", known.stored, refusal, compact(known.doc))
		}
		for _, p := range entry.Decode("known.json", compact(known.doc)).Problems {
			shown[p.Code] = true
			if said := severity[p.Code]; said != "" && said != p.Severity {
				t.Errorf("%s is said to be of severity %q, and is found as %q", p.Code, said, p.Severity)
			}
			if p.Severity == chain.SeverityError && refusal == "" {
				t.Errorf("Consul stores %s, which is said to be wrong: %v", compact(known.doc), p)
			}
		}
		if err := j.clear(); err != nil {
			t.Fatal(err)
		}
	}
	for code := range severity {
		if code == chain.CodePermissionsProtocol {
			continue // that is about two entries
		}
		if !shown[code] {
			t.Errorf("no entry of chain/testdata/validate shows %s", code)
		}
	}
}
