package main

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// adminAddr is a flag that says where a server's HTTP side is.
type adminAddr struct{ text *string }

var _ pflag.Value = adminAddr{}

// newAdminAddr returns the flag, and sets what it stands at.
func newAdminAddr(text *string, value string) adminAddr {
	*text = value
	return adminAddr{text}
}

// String implements [pflag.Value].
func (a adminAddr) String() string {
	if a.text == nil { // so pflag asks for the zero value
		return ""
	}
	return *a.text
}

// Type implements [pflag.Value].
func (adminAddr) Type() string { return "address" }

var errNoAddress = errors.New("not HOST:PORT, such as " + defaultAdminAddr + ", nor a URL")

// Set implements [pflag.Value].
func (a adminAddr) Set(text string) error {
	if strings.Contains(text, "://") {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return errNoAddress
		}
	} else {
		_, port, err := net.SplitHostPort(text)
		if err != nil {
			return errNoAddress
		}
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return errNoAddress
		}
	}
	*a.text = text
	return nil
}
