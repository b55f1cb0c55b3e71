// Package session is the protocol state of one xDS stream: what the client asked for, what it holds,
// what was sent and not yet answered, what it refused. In go the client's messages and notes of what
// may have changed; out come the responses to write now, in make-before-break order, and the time at
// which to ask again. State of the world and delta are two encodings of one session.
//
// It is pure: it never reads a clock, logs, blocks or starts a goroutine, and it never looks past the
// [Offer] it is handed. A Session belongs to one goroutine at a time.
//
// What it owes its user: a note ([Session.Dirty], [Session.DirtyAll]) for everything whose answer in
// the Offer may have changed, including from [Unknown] to known; a [Session.Turn] when the Offer becomes
// complete, at the wake time, and after every [Session.Request] and note that leaves one [Session.Due].
package session
