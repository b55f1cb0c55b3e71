// Package fleet imitates many Envoys that are configured by delta ADS, one connection and stream each,
// and measures the server: how long until all have their whole configuration, how long until a flip of one
// endpoint's health has reached them, what that costs in processor time, memory and bytes, and what a
// mass reconnect costs. It speaks the public protocol alone, so that it measures every server alike. In
// go a [Config], out comes a [Result]. It is written to leave the processor to the server: one goroutine
// for each stream, no message objects, and in the middle of a flip no allocation.
package fleet
