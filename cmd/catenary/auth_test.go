package main

import (
	"slices"
	"strings"
	"testing"
)

func TestTheWaysToProveWhoOneIs(t *testing.T) {
	for name, c := range map[string]struct {
		flag      string
		files, ca bool
		want      []string
		err       string
	}{
		"default with Consul":   {want: []string{"consul"}},
		"default with files":    {files: true},
		"none":                  {flag: "none"},
		"none with files":       {flag: "none", files: true},
		"consul":                {flag: "consul", want: []string{"consul"}},
		"both":                  {flag: "mtls, consul", ca: true, want: []string{"consul", "mtls"}},
		"one twice":             {flag: "mtls,mtls", ca: true, files: true, want: []string{"mtls"}},
		"consul without Consul": {flag: "consul", files: true, err: "with --from there is none"},
		"mtls without a CA":     {flag: "mtls", err: "needs --grpc-tls-ca"},
		"none and another":      {flag: "none,consul", err: "nothing to add"},
		"another word":          {flag: "token", err: `unknown way "token"`},
		"no word":               {flag: ",", err: "names no way"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := (&authFlags{ways: c.flag}).parse(c.files, c.ca)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%v, %v; want an error with %q", got, err, c.err)
				}
				return
			}
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%v, %v; want %v", got, err, c.want)
			}
		})
	}
}
