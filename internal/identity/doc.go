// Package identity says who a client is and what it may, and gives services what they prove it with.
//
// [Verdicts] keeps what Consul answered about the tokens of clients, asks again before that is old, ends the
// admission of clients whose rights were taken away, and makes their rights to read services facts. Tokens
// come in, admissions and facts go out.
//
// [Leafs] keeps a certificate for each service that needs one, renews it in time, and makes what may be
// known of it a fact. Needs and roots come in from the facts, orders go out to an [Issuer].
//
// Tokens and private keys are kept in memory only, never printed, and never part of a fact. The package
// knows neither Consul's client nor the protocols of clients.
package identity
