// Catenary is a control plane for fleets on Consul. Each verb is in the file of its name; serve.go
// shows how the parts are wired together.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	os.Exit(run())
}

// run is main with an exit code, so that what is deferred runs. The first signal ends the context,
// and the verbs with it; the second ends the process.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	root := newRoot()
	root.SetArgs(os.Args[1:])
	err := root.ExecuteContext(ctx)
	report(os.Stderr, err)
	return exitCode(err)
}
