// Package examples holds example configurations. The shop is what `catenary demo` serves; the files
// are written for people, and `catenary serve --from examples/shop` reads them as they are.
package examples

import "embed"

// Consul is the directory consul: what to write to a Consul that catenary serve follows.
//
//go:embed consul/*.hcl consul/config/*.hcl
var Consul embed.FS

// Shop is the directory shop: a service web that calls api, which is split between two versions, and
// stock, which fails over.
//
//go:embed shop/*.hcl
var Shop embed.FS
