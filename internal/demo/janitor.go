package demo

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
)

// Janitor makes a directory, writes its path to out, waits until in ends, and removes the directory.
// It runs in a process of its own, whose in is a pipe that the demo holds: that ends with the demo
// even where the demo is killed and can remove nothing itself.
func Janitor(in io.Reader, out io.Writer) error {
	// Its work begins when others are asked to end.
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	dir, err := os.MkdirTemp("", "catenary-demo-")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, dir); err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	_, err = io.Copy(io.Discard, in)
	return errors.Join(err, os.RemoveAll(dir))
}

// keptDir is a directory that a janitor looks after.
type keptDir struct {
	path string
	hold io.Closer
	cmd  *exec.Cmd
}

func startJanitor(command []string) (*keptDir, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.SysProcAttr = ownSession()
	hold, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	says, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	path, err := bufio.NewReader(says).ReadString('\n')
	d := &keptDir{path: strings.TrimSuffix(path, "\n"), hold: hold, cmd: cmd}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the janitor says nothing: %w", err), d.Close())
	}
	return d, nil
}

// Close has the directory removed, and returns when it is gone.
func (d *keptDir) Close() error {
	return errors.Join(d.hold.Close(), d.cmd.Wait())
}
