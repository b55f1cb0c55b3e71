package xds_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
	"github.com/catenary-mesh/catenary/xds"
)

// large gives a service so many instances that its endpoint set is made apart from others. The first of
// them says its number.
func (c *control) large(service string) {
	list := []*facts.Instance{numbered(service, 0)}
	for i := 1; i < 2000; i++ {
		in := numbered(service, 0)
		in.Service.ID = fmt.Sprintf("%s-%d", service, i)
		in.Service.Address = fmt.Sprintf("172.16.%d.%d", i>>8, i&255)
		list = append(list, in)
	}
	c.instances(service, list...)
}

// renumber changes the number of a service, and leaves its other instances as they are.
func (c *control) renumber(service string, n uint32) {
	c.store.Commit(func(tx *facts.Tx) { tx.PutInstance(facts.Health("dc1", service), numbered(service, n)) })
}

// TestALargeServiceDelaysNoOther holds the making of a large set back: whatever else changes meanwhile is
// told all the same.
func TestALargeServiceDelaysNoOther(t *testing.T) {
	forms(t, func(t *testing.T, sotw bool) {
		c := startControl(t, nil)
		c.market(2)
		c.large("s0")
		callers := []*caller{callerOf(t, "both", sotw, "s0", "s1"), callerOf(t, "large", sotw, "s0"), callerOf(t, "small", sotw, "s1")}
		c.calls(callers...)
		c.synced(3, xds.StateSynced)
		release := c.server.HoldLarge()
		before := c.server.Counts().Products["endpoints"]
		for n := range uint32(10) {
			c.renumber("s0", 1+n)
			c.renumber("s1", 1+n)
			c.told([]*caller{callers[0], callers[2]}, "s1", 1+n)
			c.told(callers[:2], "s0", 0)
		}
		late := callerOf(t, "late", sotw, "s0", "s1") // is given what there is
		c.calls(late)
		c.told([]*caller{late}, "s1", 10)
		release()
		c.told(append(callers[:2:2], late), "s0", 10)
		// One of the ten changes began to be made, and what came after it was made once.
		if made := c.server.Counts().Products["endpoints"] - before; made > 12 {
			t.Errorf("%d endpoint sets were made, want 10 small and 2 large", made)
		}
	})
}

// TestLargeAndSmallServicesEndAsTheyAre changes both faster than is published, with clients that come and go.
func TestLargeAndSmallServicesEndAsTheyAre(t *testing.T) {
	const changes = 60
	forms(t, func(t *testing.T, sotw bool) {
		c := startControl(t, func(cfg *xds.Config) { cfg.Linger = 20 * time.Millisecond })
		c.market(3)
		c.large("s0")
		c.large("s1")
		callers, end := c.comers(sotw, 4, "s0", "s1", "s2")
		defer end()
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				tick := time.NewTicker(4 * time.Millisecond)
				defer tick.Stop()
				for n := range uint32(changes) {
					<-tick.C
					c.renumber(fmt.Sprintf("s%d", i), 1+n)
				}
			})
		}
		all.Wait()
		for i := range 3 {
			c.told(callers, fmt.Sprintf("s%d", i), changes)
		}
	})
}

// TestStreamsOfOneSelectionAreNeverToldWhatWas has streams that share all they have come and go, faster
// than anything is forgotten and slower, while it changes.
func TestStreamsOfOneSelectionAreNeverToldWhatWas(t *testing.T) {
	const changes = 400
	for _, linger := range []time.Duration{time.Millisecond, time.Minute} {
		t.Run(linger.String(), func(t *testing.T) {
			forms(t, func(t *testing.T, sotw bool) {
				c := startControl(t, func(cfg *xds.Config) { cfg.Linger = linger })
				c.market(2)
				callers, end := c.comers(sotw, 16, "s0", "s1")
				defer end()
				for n := range uint32(changes) {
					c.number(fmt.Sprintf("s%d", n%2), 1+n)
					if n%8 == 7 {
						c.told(callers, "s1", 1+n)
					}
				}
				c.told(callers, "s0", changes-1)
				c.told(callers, "s1", changes)
			})
		})
	}
}

// comers starts clients of the same upstreams that leave and come back again and again, each after it was
// told of a few endpoint sets, until end is called.
func (c *control) comers(sotw bool, n int, services ...string) (callers []*caller, end func()) {
	ctx, cancel := context.WithCancel(c.t.Context())
	var all sync.WaitGroup
	for i := range n {
		cl := callerOf(c.t, fmt.Sprintf("web-%d", i), sotw, services...)
		callers = append(callers, cl)
		conn := c.dial()
		all.Go(func() {
			for ctx.Err() == nil {
				stream, leave := context.WithCancel(ctx)
				left := 1 + rand.IntN(20)
				cl.numbers = func(string, uint32) {
					if left--; left == 0 {
						leave()
					}
				}
				if err := cl.call(stream, conn); stream.Err() == nil {
					c.t.Errorf("%s: %v", cl.node.GetId(), err)
				}
				leave()
			}
		})
	}
	return callers, func() {
		cancel()
		all.Wait()
	}
}

// TestAClientThatComesBackWithinTheLingerCostsOneLook finds everything as it was.
func TestAClientThatComesBackWithinTheLingerCostsOneLook(t *testing.T) {
	forms(t, func(t *testing.T, sotw bool) {
		c := startControl(t, func(cfg *xds.Config) { cfg.Linger = time.Minute })
		names := c.market(10)
		cl := callerOf(t, "web-1", sotw, names...)
		leave := c.calls(cl)
		c.synced(1, xds.StateSynced)
		needed := c.sizes()["needs"]
		for i := range 5 {
			leave()
			testenv.Eventually(t, 10*time.Second, func() error {
				if sizes := c.server.Sizes(); sizes["streams"]+sizes["told"] > 0 {
					return errors.New("the stream has not ended")
				}
				return nil
			})
			before, kept := c.server.Counts(), c.sizes()
			leave = c.calls(cl)
			c.synced(1, xds.StateSynced)
			after := c.server.Counts()
			before.Plans++
			if !reflect.DeepEqual(after, before) {
				t.Errorf("to come back a %dth time cost %+v, want %+v", i+1, after, before)
			}
			if kept["needs"] != 0 {
				t.Errorf("%d topics are needed by nobody", kept["needs"])
			}
			kept["needs"] = needed
			kept["clients"]++ // the one that left is forgotten later
			kept["streams"]++
			kept["seats"]++
			kept["told"]++
			if sizes := c.sizes(); !reflect.DeepEqual(sizes, kept) {
				t.Errorf("kept are %v, want %v", sizes, kept)
			}
		}
		leave()
		c.stop()
		c.forgotten()
	})
}
