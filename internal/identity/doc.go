// Package identity says who a client is and what it may: it keeps what Consul answered about the tokens
// of clients, asks again before that is old, ends the admission of clients whose rights were taken away,
// and makes their rights to read services facts. Tokens come in, admissions and facts go out.
//
// Tokens are kept in memory only, never printed, and never part of a fact. The package knows neither
// Consul's client nor the protocols of clients.
package identity
