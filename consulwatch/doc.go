// Package consulwatch is the source of facts that follows Consul: by the event streams of its servers,
// and by blocking queries for what has no events and while there are none. It follows the config entries,
// the names of the services, the roots of the certificate authority, what holds between services without
// intentions, and whatever else the store needs, and commits what it is told; it makes nothing of it itself.
//
// Its care is what may be believed of an answer. In Consul a denied read looks like an empty one, a
// restored server goes back in time, and a query may fail at any moment; none of these may look like
// a removal. So a topic is first read by a query that neither blocks nor tolerates a stale server,
// which together with the token's rights confirms what is not there; events and blocking queries only
// say what is new, and whatever is missing from them is confirmed by such a read again. A query that
// fails removes nothing.
//
// It never writes to Consul.
package consulwatch
