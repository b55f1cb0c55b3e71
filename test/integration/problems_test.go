package integration_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/internal/admin"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

// What keeps Consul from being followed is told where an operator looks for it, and only while it lasts.
func TestAnOutageOfConsulIsToldWhileItLasts(t *testing.T) {
	t.Parallel()
	f := startFleet(t, false)
	told := func(wanted bool, within string) {
		t.Helper()
		testenv.Eventually(t, 2*patience, func() error {
			var list []admin.Problem
			if err := f.catenary.API("/api/v1/problems", &list); err != nil {
				return err
			}
			samples := f.catenary.Metrics()
			count := samples[`catenary_problems{origin="source"}`]
			age, known := samples["catenary_source_oldest_answer_seconds"]
			switch {
			case !known || age <= 0:
				return fmt.Errorf("the oldest answer is of %v s (measured: %t)", age, known)
			case !wanted && (len(list) > 0 || count > 0):
				return fmt.Errorf("%s: %v problems: %v", within, count, list)
			case wanted && (len(list) == 0 || count == 0):
				return fmt.Errorf("%s: %v problems: %v", within, count, list)
			case wanted && !strings.Contains(list[0].Message, "Consul at "+f.consul.HTTPAddr()+" cannot be reached"):
				return fmt.Errorf("%s: the problem is %v", within, list[0])
			case wanted && len(list) > 1:
				return fmt.Errorf("%s: one outage is %d problems: %v", within, len(list), list)
			}
			return nil
		})
	}
	told(false, "all is well")
	f.consul.Stop()
	told(true, "Consul is away")
	f.consul.Restart()
	told(false, "Consul is back")
}

func TestAConsulThatIsAwayAtTheStartIsTold(t *testing.T) {
	t.Parallel()
	consul := testenv.StartConsul(t)
	consul.Stop()
	c := testenv.StartCatenary(t, consul.Env())
	testenv.Eventually(t, patience, func() error {
		var list []admin.Problem
		err := c.API("/api/v1/problems", &list)
		if err == nil && (len(list) == 0 || !strings.Contains(list[0].Message, "Consul at "+consul.HTTPAddr()+" cannot be reached")) {
			err = fmt.Errorf("problems: %v", list)
		}
		return err
	})
}
