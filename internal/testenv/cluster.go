package testenv

import (
	"fmt"
	"testing"
)

// Cluster is servers of the real Consul that elect a leader among them. They keep their data.
type Cluster struct {
	// Servers are in no order.
	Servers []*Consul

	t testing.TB
}

// StartCluster starts servers and waits until each has a leader. They end with the test.
func StartCluster(t testing.TB, servers int, opts ...ConsulOption) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	var peers []string
	for i := range servers {
		s := newConsul(t, fmt.Sprintf("server-%d", i+1), opts)
		s.persistent = true
		c.Servers = append(c.Servers, s)
		peers = append(peers, fmt.Sprintf("127.0.0.1:%d", s.ports["serf-lan-port"]))
	}
	for _, s := range c.Servers {
		s.peers = peers
	}
	c.Restart()
	return c
}

// Restart stops all servers that run, starts all, and waits until each has a leader.
func (c *Cluster) Restart() {
	c.t.Helper()
	for _, s := range c.Servers {
		s.Kill()
	}
	for _, s := range c.Servers {
		s.launch()
	}
	for _, s := range c.Servers {
		s.await()
	}
}

// RPCAddrs returns host:port of the RPC of all servers.
func (c *Cluster) RPCAddrs() []string {
	var list []string
	for _, s := range c.Servers {
		list = append(list, s.RPCAddr())
	}
	return list
}

// Leader returns the server that the others follow, as one that is not dead says.
func (c *Cluster) Leader() *Consul {
	c.t.Helper()
	var leader *Consul
	Eventually(c.t, startTimeout, func() error {
		for _, asked := range c.Servers {
			addr, err := asked.client.Status().Leader()
			for _, s := range c.Servers {
				if err == nil && s.RPCAddr() == addr {
					leader = s
					return nil
				}
			}
		}
		return fmt.Errorf("testenv: no server names a leader")
	})
	return leader
}

// Follower returns a server that is not the leader.
func (c *Cluster) Follower() *Consul {
	c.t.Helper()
	leader := c.Leader()
	for _, s := range c.Servers {
		if s != leader {
			return s
		}
	}
	c.t.Fatal("testenv: the cluster has one server")
	return nil
}
