// Package admin is the HTTP side: health, readiness, metrics and what the control plane knows, as
// JSON, and Consul's own /v1/discovery-chain for Consul's clients. It only reads. What it tells comes
// through its [Config], so that it depends on no part of the control plane that changes.
package admin
