package main

import (
	"errors"
	"os/exec"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

// exits CODE COMMAND... runs the command and fails unless it exits with the code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG]...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v: %v", args[1:], err)
	}
	if got != want {
		ts.Fatalf("%v exits with %d, not %d", args[1:], got, want)
	}
}

// terminate asks all commands in the background to end.
func terminate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: terminate")
	}
	for _, cmd := range ts.BackgroundCmds() {
		ts.Check(cmd.Process.Signal(syscall.SIGTERM))
	}
}

// answerTimeout bounds how long a server may take to come to an answer.
const answerTimeout = 15 * time.Second

// answers STATUS URL PATTERN waits until the URL is answered so.
func answers(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: answers STATUS URL PATTERN")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	pattern := regexp.MustCompile(args[2])
	deadline := time.Now().Add(answerTimeout)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		status, body, err := testenv.Get(args[1], nil)
		if err == nil && status == want && pattern.MatchString(body) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s answers %d %q (%v), not %d %q", args[1], status, body, err, want, args[2])
		}
		<-ticker.C
	}
}
