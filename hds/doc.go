// Package hds is health discovery: Envoys of the fleet probe its endpoints and report what they see, and
// the package makes verdicts of that. Duties come from the catalog ([Choose]), are spread over the
// checkers ([Assignment]), go to each as a specifier that cannot harm it ([Compose]), come back as reports
// ([Reports]), are counted as votes and turn into verdicts ([Verdicts]).
//
// It is pure: no I/O, clock, log or goroutine; the time is an argument.
package hds
