package consulwatch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/catenary-mesh/catenary/chain"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/testenv"
)

func TestWhatIsTheSameForSeveralTopicsIsOneProblem(t *testing.T) {
	const away, denied, hides = "nobody answers", "no rights", "something is hidden"
	topics := func(reason string, n int) (list []Status) {
		for i := range n {
			list = append(list, Status{Topic: facts.Health("dc1", fmt.Sprint("s", i)), Failure: reason})
		}
		return list
	}
	for name, c := range map[string]struct {
		list    []Status
		waiting string
		want    string
	}{
		"nothing": {},
		"one of each": {
			list: append(topics(denied, 1),
				Status{Topic: facts.Services("dc1"), Hidden: hides},
				Status{Topic: facts.Services("dc2"), Problems: []chain.Problem{{Entry: "service-router/web", Message: "unknown"}}},
				Status{Topic: facts.Services("dc3"), Failure: denied, Lingering: true}),
			want: `consul: health/dc1/s0: no rights (CAT1950)
consul: services/dc1: something is hidden (CAT1951)
service-router/web: unknown`,
		},
		"many, as the wiring": {
			list: topics(away, 7), waiting: away,
			want: "consul: health/dc1/s0, health/dc1/s1, health/dc1/s2, health/dc1/s3, 3 more: nobody answers (CAT1950)",
		},
		"the wiring alone": {waiting: away, want: "consul: nobody answers (CAT1950)"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range problemsOf(c.list, c.waiting) {
				got = append(got, p.String())
			}
			if got := strings.Join(got, "\n"); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// problem waits until the only problem contains the texts; without texts until there is none.
func (r *rig) problem(texts ...string) {
	r.Helper()
	testenv.Eventually(r.T, soon, func() error {
		list := r.source.Problems()
		if len(list) != min(len(texts), 1) {
			return fmt.Errorf("%d problems: %v", len(list), list)
		}
		for _, text := range texts {
			if !strings.Contains(list[0].String(), text) {
				return fmt.Errorf("the problem is %s, and does not say %q", list[0], text)
			}
		}
		return nil
	})
}

func TestAnOutageIsAProblemUntilItIsOver(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	r := following(t, f, f.config())
	r.problem()
	f.change(func() {
		f.gaveUp = true
		f.fault = func(w http.ResponseWriter, _ *http.Request) bool {
			http.Error(w, "No cluster leader", http.StatusInternalServerError)
			return true
		}
	})
	r.problem(CodeUnread, "entries/proxy-defaults, ", " more: Consul is not available (500 No cluster leader)")
	f.change(func() { f.gaveUp, f.fault = false, nil })
	r.problem()
}

func TestAnEntryThatCannotBeDecodedIsAProblem(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	r := following(t, f, f.config())
	const path = "/v1/config/service-router"
	f.set(path, `[{"Kind":"service-router","Name":"web","Routes":7},{"Kind":"service-router","Name":"api"}]`)
	r.problem("consul: service-router/web: Routes[0]: must be a map")
	f.set(path, `[{"Kind":"service-router","Name":"api","Colour":"red"}]`)
	r.problem("consul: service-router/api: Colour: unknown key")
	f.set(path, `[]`)
	r.problem()
}

func TestTheOldestAnswerIsThatOfTheTopicWithout(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	begin := time.Now()
	r := following(t, f, f.config())
	f.change(func() {
		f.fault = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/v1/health/service/mute" {
				<-r.Context().Done()
				return true
			}
			return false
		}
	})
	mute := facts.Health("dc1", "mute")
	r.store.Need("test", apiHealth, mute)
	testenv.Eventually(t, soon, func() error {
		for _, s := range r.source.Status() {
			if s.Topic == mute && s.Age < 0 && s.Followed > 0 {
				if age := r.source.OldestAnswer(); age < s.Followed {
					t.Errorf("%s, although %s has not been answered for %s", age, mute, s.Followed)
				}
				return nil
			}
		}
		return errors.New("the mute topic is not followed")
	})
	if age := r.source.OldestAnswer(); age <= 0 || age > time.Since(begin) {
		t.Errorf("%s after %s", age, time.Since(begin))
	}
}

func TestAConsulThatIsNotThereIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	reach := func(ctx context.Context) error {
		s, err := New(f.config())
		if err != nil {
			t.Fatal(err)
		}
		defer s.transport.closeIdle()
		return s.Reach(ctx)
	}
	if err := reach(t.Context()); err != nil {
		t.Error(err)
	}
	f.change(func() {
		f.fault = func(w http.ResponseWriter, _ *http.Request) bool {
			http.Error(w, "No cluster leader", http.StatusInternalServerError)
			return true
		}
	})
	if err := reach(t.Context()); err != nil {
		t.Errorf("one without a leader may find one: %v", err)
	}
	f.change(func() {
		f.fault = func(_ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), awhile)
	defer cancel()
	if err := reach(ctx); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("one that is mute: %v", err)
	}
	f.server.CloseClientConnections()
	f.server.Close()
	begin := time.Now()
	err := reach(t.Context())
	want := "Consul at " + f.server.Listener.Addr().String() + " cannot be reached (dial: connect: connection refused)"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if d := time.Since(begin); d > 5*time.Second {
		t.Errorf("it took %s", d)
	}
}

func TestTheAddressIsCheckedAtOnce(t *testing.T) {
	for address, good := range map[string]bool{
		"": true, "127.0.0.1:8500": true, "consul.example": true, "[::1]:8500": true, "http://consul:8500/prefix": true,
		"https://consul": true, "unix:///run/consul.sock": true, ":8500": true,
		"h ttp:x": false, "http://": false, "ftp://consul:8500": false, "consul:eight": false,
	} {
		_, err := New(Config{API: &api.Config{Address: address}})
		if good != (err == nil) {
			t.Errorf("%q: %v", address, err)
		}
		if err != nil && !strings.Contains(err.Error(), "want HOST:PORT") {
			t.Errorf("%q: %v", address, err)
		}
	}
}
