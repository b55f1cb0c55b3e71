package destination

import "sync"

// counts are what a server counted.
type counts struct {
	mu      sync.Mutex
	encoded int
	streams int
	routes  [2]int

	notSearched int
	problems    int
}

func (c *counts) StreamOpened(string)     { c.mu.Lock(); c.streams++; c.mu.Unlock() }
func (c *counts) StreamClosed(string)     { c.mu.Lock(); c.streams--; c.mu.Unlock() }
func (*counts) Response(string, int, int) {}
func (c *counts) Encoded(string)          { c.mu.Lock(); c.encoded++; c.mu.Unlock() }

func (c *counts) ProfileRoutes(leftOut, weakened int) {
	c.mu.Lock()
	c.routes = [2]int{leftOut, weakened}
	c.mu.Unlock()
}

func (c *counts) LinkerdProblems(chains int) { c.mu.Lock(); c.problems = chains; c.mu.Unlock() }
func (c *counts) NotSearched(services int)   { c.mu.Lock(); c.notSearched = services; c.mu.Unlock() }

func (c *counts) ofRoutes() [2]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.routes
}
