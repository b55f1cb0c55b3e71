// Package consulwatch is the source of facts that follows Consul by blocking queries. It asks for the
// config entries, the names of the services and whatever else the store needs, and commits the
// answers as readings; it makes nothing of them itself.
//
// Its care is what may be believed of an answer. In Consul a denied read looks like an empty one, a
// restored server goes back in time, and a query may fail at any moment; none of these may look like
// a removal. So a topic is first read by a query that neither blocks nor tolerates a stale server,
// which together with the token's rights confirms what is not there; blocking queries only say what
// is new, and whatever is missing from their answers is confirmed by such a read again. A query that
// fails removes nothing.
//
// It never writes to Consul.
package consulwatch
