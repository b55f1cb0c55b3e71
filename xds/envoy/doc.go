// Package envoy turns products into Envoy's resources, encoded. It is pure and deterministic: equal
// products give equal bytes, and a version is a hash of the bytes, so that all replicas agree.
package envoy
