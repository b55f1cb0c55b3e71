// Package snapshot decides what each client gets and makes it. A plan is the list of products that a
// client gets; a product is a pure function of its key and of facts, made once for everyone who has
// it. The [Cache] remembers which facts each was made of and remakes just what a change touches.
//
// It is pure: no I/O, clock, log or goroutine.
package snapshot
