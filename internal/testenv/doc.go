// Package testenv gives tests the real peers at the outer ends: Consul, Envoy and the backends behind
// it, all on loopback, each started for one test and gone when it ends. Nothing but tests imports it.
//
// The binaries come from .tools at the root of the repository; a test that needs one which is not
// there fails and says how to get it. Child processes also end when the test binary is killed.
package testenv
