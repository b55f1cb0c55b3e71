package testenv

import (
	"testing"
	"time"
)

// pollInterval is how often a condition is tried. What has not come within aWhile is tried less often: it may take
// half a minute, and those who wait for it would keep the machine from what they wait for.
const (
	pollInterval = 10 * time.Millisecond
	aWhile       = 2 * time.Second
	longInterval = 50 * time.Millisecond
)

// Eventually calls f until it returns nil, and fails the test with f's last error when it has not
// within the timeout.
func Eventually(t testing.TB, timeout time.Duration, f func() error) {
	t.Helper()
	if err := poll(timeout, f); err != nil {
		t.Fatalf("not within %v: %v", timeout, err)
	}
}

// Throughout calls f until the time is over and fails the test at its first error. It is for what
// must not happen: it costs a passing test the whole time, so keep that short.
func Throughout(t testing.TB, d time.Duration, f func() error) {
	t.Helper()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for end := time.Now().Add(d); ; {
		if err := f(); err != nil {
			t.Fatalf("%v before the end of %v: %v", time.Until(end).Round(time.Millisecond), d, err)
		}
		if !time.Now().Before(end) {
			return
		}
		<-ticker.C
	}
}

// poll is Eventually for what has no test.
func poll(timeout time.Duration, f func() error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	patient := false
	for began := time.Now(); ; {
		err := f()
		waited := time.Since(began)
		if err == nil || waited > timeout {
			return err
		}
		if !patient && waited > aWhile {
			patient = true
			ticker.Reset(longInterval)
		}
		<-ticker.C
	}
}
