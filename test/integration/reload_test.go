package integration_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/internal/testenv"
)

func TestAHangupHasTheTokenReadAgain(t *testing.T) {
	t.Parallel()
	consul := testenv.StartConsul(t, testenv.WithACL())
	file := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(consul.NewToken("")) // which sees nothing
	c := testenv.StartCatenary(t, []string{"CONSUL_HTTP_TOKEN_FILE=" + file}, "--consul-addr", consul.HTTPAddr())
	testenv.Eventually(t, patience, func() error {
		switch err := c.Ready(); {
		case err == nil:
			return errors.New("ready with a token that sees nothing")
		case !strings.Contains(err.Error(), "token"):
			return fmt.Errorf("readiness does not name the token: %w", err)
		}
		return nil
	})
	good := consul.NewToken(readAll)
	write(good)
	begin := time.Now()
	c.Hangup()
	testenv.Eventually(t, patience, c.Ready)
	if took := time.Since(begin); took > 4*time.Second {
		t.Errorf("it took %v: that is the time of who looks at the file", took)
	}
	if log := c.Log(); strings.Contains(log, good) || !strings.Contains(log, "read again") {
		t.Errorf("the log holds the token, or does not say what was done:\n%s", log)
	}
}
