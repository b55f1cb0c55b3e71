package consulwatch

import (
	"sync"
	"testing"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// Who needs the roots alone has Consul asked for nothing else.
func TestASparseSourceFollowsOnlyWhatIsNeeded(t *testing.T) {
	t.Parallel()
	cfg := startFake(t).config()
	cfg.Sparse, cfg.Datacenter = true, "dc1"
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := &roster{source: s, store: facts.New(), group: new(sync.WaitGroup)}
	if wanted := r.wanted(); len(wanted) > 0 {
		t.Errorf("with no needs %v are followed", wanted)
	}
	r.store.Need("test", facts.CARoots(), facts.LeafOf("web"))
	if wanted := r.wanted(); len(wanted) != 1 || !wanted[facts.CARoots()] {
		t.Errorf("%v are followed, want the roots", wanted)
	}
}
