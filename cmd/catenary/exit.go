package main

import (
	"errors"
	"fmt"
	"io"
)

// The exit codes, which are a contract with scripts.
const (
	exitGood     = 0
	exitFindings = 1 // what was asked about is not well: invalid or broken files, a refused configuration
	exitUsage    = 2 // the command line cannot be understood, or its input not be read
	exitSource   = 3 // the source cannot be reached, or denies access
)

// exitError is an error with the exit code it leads to. Any other error leads to exitUsage.
type exitError struct {
	code int
	err  error // nil when everything has been said
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// found is the result of a verb that found something wrong and has said so.
func found() error { return &exitError{code: exitFindings} }

// finding is the result of a verb that found something wrong.
func finding(err error) error { return &exitError{code: exitFindings, err: err} }

// unreachable is the result of a verb whose source cannot be reached or denies access.
func unreachable(err error) error { return &exitError{code: exitSource, err: err} }

func exitCode(err error) int {
	if err == nil {
		return exitGood
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	return exitUsage
}

// report prints an error, unless its verb has said everything already.
func report(w io.Writer, err error) {
	if e, ok := errors.AsType[*exitError](err); err == nil || ok && e.err == nil {
		return
	}
	fmt.Fprintf(w, "catenary: %v\n", err)
}
