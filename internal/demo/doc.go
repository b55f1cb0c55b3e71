// Package demo shows the control plane at work on one machine: an example shop, its backends, a real
// Envoy in front of them, a trickle of requests, and a summary of what happens to these. Nothing of it
// outlives the process, however that ends.
package demo
