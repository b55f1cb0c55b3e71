package filesource_test

import (
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/filesource"
)

func TestFilesHaveNoRootsAndADefaultOfTheirs(t *testing.T) {
	store := facts.New()
	for _, deny := range []bool{false, true, false} {
		filesource.Commit(store, filesource.World{Datacenter: "dc1", DenyByDefault: deny}, filesource.Set{})
		v := store.View()
		if allow, state := v.DefaultIntention(); state != facts.Present || allow == deny {
			t.Errorf("the default is %t, %s", allow, state)
		}
		if _, state := v.Roots(); state != facts.Unknown {
			t.Errorf("roots are %s", state)
		}
		if s := v.Topic(facts.CARoots()); !s.Off || !strings.Contains(s.Failure, "need Consul") {
			t.Errorf("%+v", s)
		}
		if ready, why := v.Ready("dc1"); !ready {
			t.Error(why)
		}
	}
}
