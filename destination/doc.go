// Package destination serves Linkerd's proxies, by the Destination service of today and that of Conduit
// before it: who stands behind a name, and how requests to it are treated. What goes in is the facts, what
// comes out are messages of those services. What is asked once by many is resolved and encoded once; a
// stream holds only what it was sent last, and whoever reads slowly finds the latest.
//
// Names, tokens, endpoints, steps and profiles are pure files; the server and what it shares are not.
package destination
