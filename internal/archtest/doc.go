// Package archtest holds the rules of the architecture that a test can keep: who may import whom, and
// what a pure package may not do. A broken rule prints its reason. It has no code of its own.
package archtest
