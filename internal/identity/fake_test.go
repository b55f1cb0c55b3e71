package identity_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/identity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeConsul answers questions by rules, and counts the calls. The zero value knows no token.
type fakeConsul struct {
	mu    sync.Mutex
	rules map[string]map[identity.Question]bool // by secret; the anonymous token has none
	off   bool
	err   error
	delay time.Duration
	asked []call
}

type call struct {
	secret    string
	questions []identity.Question
}

func newConsul() *fakeConsul {
	return &fakeConsul{rules: map[string]map[identity.Question]bool{}, delay: time.Millisecond}
}

// Authorize implements identity.Authorizer.
func (f *fakeConsul) Authorize(ctx context.Context, token identity.Token, questions []identity.Question) ([]bool, error) {
	f.mu.Lock()
	delay := f.delay
	f.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return nil, &identity.Unreachable{Reason: "Consul does not answer in time"}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if token.Secret() != "" {
		f.asked = append(f.asked, call{token.Secret(), questions})
	}
	rules, ok := f.rules[token.Secret()]
	switch {
	case f.err != nil:
		return nil, f.err
	case f.off:
		return nil, identity.ErrACLsOff
	case !ok && token.Secret() != "":
		return nil, identity.ErrUnknownToken
	}
	answers := make([]bool, 0, len(questions))
	for _, q := range questions {
		answers = append(answers, rules[q])
	}
	return answers, nil
}

// set changes what the fake says.
func (f *fakeConsul) set(change func(*fakeConsul)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

// allow gives a token rights beside those it has.
func (f *fakeConsul) allow(secret string, questions ...identity.Question) {
	f.set(func(f *fakeConsul) {
		if f.rules[secret] == nil {
			f.rules[secret] = map[identity.Question]bool{}
		}
		for _, q := range questions {
			f.rules[secret][q] = true
		}
	})
}

func (f *fakeConsul) away(reason string) {
	f.set(func(f *fakeConsul) {
		f.err = nil
		if reason != "" {
			f.err = &identity.Unreachable{Reason: reason}
		}
	})
}

// calls returns the calls since the last time.
func (f *fakeConsul) calls() []call {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := f.asked
	f.asked = nil
	return list
}

func read(service string) identity.Question {
	return identity.Question{Service: service, Access: identity.Read}
}

func write(service string) identity.Question {
	return identity.Question{Service: service, Access: identity.Write}
}

// bench is verdicts that run, over a fake Consul, in a bubble of time.
type bench struct {
	*identity.Verdicts
	t      *testing.T
	consul *fakeConsul
	store  *facts.Store
}

// inTime runs a test with running verdicts, and the clock of a bubble.
func inTime(t *testing.T, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, consul: newConsul(), store: facts.New()}
		b.Verdicts = identity.NewVerdicts(identity.Config{Authorizer: b.consul})
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- b.Run(ctx, b.store) }()
		defer func() {
			end()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		time.Sleep(time.Second)
		f(b)
	})
}

// admit admits a stream and fails the test if it is refused.
func (b *bench) admit(secret, service string, reads ...string) *identity.Grant {
	b.t.Helper()
	g, err := b.Admit(b.t.Context(), identity.Request{Token: identity.NewToken(secret), Service: service, Reads: reads})
	if err != nil {
		b.t.Fatalf("refused: %v", err)
	}
	return g
}

// refused fails the test unless a stream is refused in this way.
func (b *bench) refused(secret, service string, kind identity.RefusalKind) {
	b.t.Helper()
	g, err := b.Admit(b.t.Context(), identity.Request{Token: identity.NewToken(secret), Service: service})
	if g != nil {
		b.t.Fatalf("%s for %s is admitted", secret, service)
	}
	isRefusal(b.t, err, kind)
}

func isRefusal(t *testing.T, err error, kind identity.RefusalKind) {
	t.Helper()
	r, ok := err.(*identity.Refusal) //nolint:errorlint // the type is the promise
	if !ok || r.Kind != kind {
		t.Errorf("got %#v, want a refusal %s", err, kind)
	}
}

// revoked waits until a grant is revoked, and fails the test if that takes longer.
func (b *bench) revoked(g *identity.Grant, within time.Duration, kind identity.RefusalKind) {
	b.t.Helper()
	select {
	case <-g.Revoked():
		isRefusal(b.t, g.Err(), kind)
	case <-time.After(within):
		b.t.Errorf("not revoked within %s", within)
	}
}

// stays fails the test if a grant is revoked within that time.
func (b *bench) stays(g *identity.Grant, d time.Duration) {
	b.t.Helper()
	select {
	case <-g.Revoked():
		b.t.Fatalf("revoked: %v", g.Err())
	case <-time.After(d):
	}
}

// right fails the test unless a right has a state once everything has settled.
func (b *bench) right(g *identity.Grant, service string, want facts.State) {
	b.t.Helper()
	time.Sleep(100 * time.Millisecond)
	if got := b.store.View().Right(g.Reader(), service); got != want {
		b.t.Errorf("the right to read %s is %s, want %s", service, got, want)
	}
}
