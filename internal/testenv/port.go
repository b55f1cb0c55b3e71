package testenv

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// Ports are taken from below the range that Linux takes the local ports of outgoing connections
// from, so that no connection of another test can sit on one between its choice and its use.
const (
	firstPort = 12000
	lastPort  = 31999
)

// FreePort returns a port of 127.0.0.1 that is free for TCP and UDP, and that no other call returns,
// in this or another test binary, before the test has ended.
func FreePort(t testing.TB) int {
	t.Helper()
	return takePort(t, bindable)
}

// listen listens on a port as [FreePort] finds it, without letting go of it in between: a child
// process that starts just then holds a copy of a closed listener until it has loaded its program.
func listen(t testing.TB) net.Listener {
	t.Helper()
	var lis net.Listener
	takePort(t, func(port int) bool {
		var err error
		lis, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		return err == nil
	})
	return lis
}

// takePort locks ports until one can be taken, and keeps that one locked until the test has ended.
func takePort(t testing.TB, take func(port int) bool) int {
	t.Helper()
	dir := filepath.Join(os.TempDir(), "catenary-test-ports")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatalf("testenv: no directory for the locks of ports: %v", err)
	}
	n := lastPort - firstPort + 1
	for start, i := rand.IntN(n), 0; i < n; i++ {
		port := firstPort + (start+i)%n
		lock, ok := lockPort(dir, port)
		if !ok {
			continue
		}
		if !take(port) {
			lock.Close()
			continue
		}
		t.Cleanup(func() { lock.Close() })
		return port
	}
	t.Fatalf("testenv: no port between %d and %d is free", firstPort, lastPort)
	return 0
}

// lockPort locks a port against other test binaries until the file is closed or the process ends.
func lockPort(dir string, port int) (*os.File, bool) {
	f, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(port)), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, false
	}
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		f.Close()
		return nil, false
	}
	return f, true
}

func bindable(port int) bool {
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	tcp, err := net.Listen("tcp", addr)
	if err != nil {
		return false
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", addr)
	if err != nil {
		return false
	}
	return udp.Close() == nil
}
