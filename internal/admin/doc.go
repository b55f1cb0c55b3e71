// Package admin is the HTTP side: health, readiness, metrics and what the control plane knows, as
// JSON. It only reads. What it tells comes through the functions of its [Config], so that it depends
// on no part of the control plane that changes.
package admin
