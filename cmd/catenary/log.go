package main

import (
	"fmt"
	"io"

	"github.com/hashicorp/go-hclog"
)

// newLogger returns the log of a server: text or JSON, one line an event.
func newLogger(w io.Writer, level, format string) (hclog.Logger, error) {
	l := hclog.LevelFromString(level)
	if l == hclog.NoLevel {
		return nil, fmt.Errorf("--log-level %q is none of trace, debug, info, warn, error, off", level)
	}
	if format != "text" && format != "json" {
		return nil, fmt.Errorf("--log-format %q is neither text nor json", format)
	}
	return hclog.New(&hclog.LoggerOptions{
		Name: "catenary", Level: l, Output: w, JSONFormat: format == "json",
	}), nil
}
