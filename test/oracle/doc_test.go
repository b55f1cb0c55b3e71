// Package oracle_test holds the project's discovery chains against those of a running Consul.
//
// Groups of three to six services get random config entries of every kind, biased so that the names
// meet: redirects into redirects, splitters below splitters, failover to what fails over. Every write
// goes to Consul and to [chain.Validate] and [chain.Compile], and both must take or refuse it. Every
// chain that Consul then answers, under a spread of overrides and datacenters, must be the one
// compiled here. The entries arrive here as they do in the product: [entry.Decode] reads what is written,
// and in the end [entry.DecodeJSON] what Consul gives back, of which the same chains must be made.
//
// What may differ, and nothing else:
//   - the weights of three and more levels of splitters, which vary in Consul from one question to the
//     next, by a little;
//   - which one is named of several errors of the same entries;
//   - virtual IPs, which are not made of entries;
//   - whether a write is accepted that breaks only chains which Consul does not look at: those that no
//     entry connects directly with what is written, or that spell its name in other letters. The chain
//     itself, broken as it then is, must be the same.
//
// Header modifiers whose merging crashes Consul are not generated: see [generator.headers].
//
// A difference is made as small as possible and printed as a scenario for chain/testdata/scenario, or
// as a line for chain/testdata/validate.
//
// ORACLE_CHAINS is how many chains to compare, and ORACLE_SEED the seed of a run to repeat.
package oracle_test
