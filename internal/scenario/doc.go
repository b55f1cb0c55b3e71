// Package scenario is the suite of behaviours, one per file of testdata/scenario: what users write in
// Consul, who asks, and what each stage makes of it, down to what becomes of single requests. It has
// no code but its tests.
//
// A file begins with a sentence that says what it shows. Its parts are entries/NAME.hcl, a config
// entry each, services.hcl, the instances, client.json, the client as it declares itself or
// {"id", "service"} of one that is registered, and calls, one request per line:
//
//	GET api/path?a=b x-canary:1
//	CONNECT db
//
// Everything under want/ is written by go test ./internal/scenario -update, to be read before it is
// committed: want/calls is what Envoy does with each call, want/plan the products of the client,
// want/chain/SERVICE.json the compiled chain and want/resources.json Envoy's resources.
package scenario
