package session_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/xds/session"
)

func TestTypesOfTheIncrementalForm(t *testing.T) {
	run(t, session.Delta, map[string]string{
		"secrets go before what warms on them, extensions before listeners": `
			offer secret/s=1 cluster/a=1 endpoint/a=1 extension/e=1 listener/l=1 route/r=1
			ask route r ; ask listener ; ask extension e ; ask endpoint a ; ask cluster ; ask secret s
			> secret +s=1
			> cluster +a=1
			> endpoint +a=1
			> extension +e=1
			> listener +l=1
			> route +r=1`,
		"secrets and extensions go after what uses them": `
			offer secret/s=1 cluster/a=1 extension/e=1 listener/l=1
			ask secret s ; ask cluster ; ask extension e ; ask listener
			> secret +s=1
			> cluster +a=1
			> extension +e=1
			> listener +l=1
			ack secret ; ack cluster ; ack extension ; ack listener
			gone secret/s cluster/a extension/e listener/l
			> listener -l
			ack listener
			> extension -e
			> cluster -a
			ack cluster
			> secret -s`,
		"a secret changes alone": `
			offer secret/s=1 cluster/a=1
			ask cluster ; ask secret s
			> secret +s=1
			> cluster +a=1
			ack secret ; ack cluster
			offer secret/s=2
			> secret +s=2`,
		"no wildcard stands for secrets": `
			offer secret/s=1
			ask secret *
			ask extension *`,
		"absent secrets and extensions are answered, and sent once born": `
			ask secret s ; ask extension e
			> secret -s
			> extension -e
			ack secret ; ack extension
			offer secret/s=1
			> secret +s=1
			offer extension/e=1
			> extension +e=1`,
		"every virtual host is absent, whatever there is": `
			offer virtualhost/r/a.example=1
			incomplete
			ask virtualhost r/a.example
			> virtualhost -r/a.example
			ack virtualhost
			ask virtualhost r/b.example
			> virtualhost -r/b.example
			drop virtualhost r/a.example
			ack virtualhost
			dirty all
			status virtualhost SYNCED`,
		"an on-demand cluster beside the wildcard": `
			offer cluster/a=1
			ask cluster *
			> cluster +a=1
			ack cluster
			ask cluster peer.dc2
			> cluster -peer.dc2
			ack cluster
			offer cluster/peer.dc2=1
			> cluster +peer.dc2=1
			ack cluster
			ask cluster a
			> cluster +a=1
			ack cluster
			drop cluster peer.dc2
			> cluster -peer.dc2
			ack cluster
			drop cluster a
			> cluster +a=1`,
		"a suspect on-demand cluster is answered once it is known": `
			offer cluster/a=1
			ask cluster *
			> cluster +a=1
			ack cluster
			unknown cluster/peer.dc2
			ask cluster peer.dc2
			gone cluster/peer.dc2
			> cluster -peer.dc2`,
	})
}

func TestTypesOfTheStateOfTheWorld(t *testing.T) {
	run(t, session.SotW, map[string]string{
		"absent secrets go unsaid": `
			ask secret s
			offer secret/s=1
			> secret s=1`,
		"virtual hosts are not served": `
			ask virtualhost r/a.example`,
		"extensions by name": `
			offer extension/e=1 extension/f=1
			ask extension e
			> extension e=1
			ack extension
			ask extension e f
			> extension f=1`,
	})
}

// TestStreamsOfOneType: nothing waits for what another stream brings.
func TestStreamsOfOneType(t *testing.T) {
	for name, c := range map[string]struct {
		only, text string
	}{
		"the type goes without saying": {"cluster", `
			offer cluster/a=1
			ask cluster
			> cluster +a=1
			ack cluster
			status cluster SYNCED`},
		"a route does not wait for clusters": {"route", `
			offer cluster/a=1 route/r=1>a
			ask route r
			> route +r=1
			ack route
			gone route/r
			> route -r`},
		"what goes does not wait for its users": {"cluster", `
			offer cluster/a=1
			ask cluster
			> cluster +a=1
			ack cluster
			gone cluster/a
			> cluster -a`},
		"what vanished before does not wait": {"cluster", `
			offer cluster/a=1
			keep cluster a=1 b=1
			> cluster -b`},
		"endpoints": {"endpoint", `
			ask endpoint a
			> endpoint -a
			ack endpoint
			offer endpoint/a=1
			> endpoint +a=1
			ack endpoint
			gone endpoint/a
			> endpoint -a`},
	} {
		t.Run(name, func(t *testing.T) {
			sc := newScript(t, session.Delta)
			sc.s = session.New(session.Config{Form: session.Delta, Only: typeOf(c.only), ControlPlane: "test"})
			sc.untyped = true
			sc.run(c.text)
		})
	}
}

func TestAnotherTypeOnAStreamOfOne(t *testing.T) {
	for _, url := range []string{session.RouteURL, "type.googleapis.com/other"} {
		s := session.New(session.Config{Only: typeOf("cluster")})
		if err := s.Request(time.Time{}, &session.Request{TypeURL: session.ClusterURL}); err != nil {
			t.Fatal(err)
		}
		err := s.Request(time.Time{}, &session.Request{TypeURL: url})
		if err == nil || !strings.Contains(err.Error(), session.ClusterURL) || !strings.Contains(err.Error(), url) {
			t.Errorf("%s: %v, want an error with both types", url, err)
		}
	}
}

func TestTooManyNamesIsAnErrorOfItsOwn(t *testing.T) {
	s := session.New(session.Config{MaxNames: 1})
	err := s.Request(time.Time{}, &session.Request{TypeURL: session.EndpointURL, Names: []string{"a", "b"}})
	var limit *session.LimitError
	if !errors.As(err, &limit) || limit.Names != 2 || limit.Max != 1 {
		t.Errorf("%v, want a limit error of 2 over 1", err)
	}
	err = s.Request(time.Time{}, &session.Request{TypeURL: session.EndpointURL, Names: []string{""}})
	if err == nil || errors.As(err, &limit) {
		t.Errorf("%v, want another error", err)
	}
}

// TestNamesOfTypes: they are words of metrics and statuses.
func TestNamesOfTypes(t *testing.T) {
	for _, typ := range session.Types() {
		if got, ok := session.TypeByURL(typ.URL); !ok || got != typ {
			t.Errorf("%s is not found by its URL", typ)
		}
		if strings.Trim(typ.Name, "abcdefghijklmnopqrstuvwxyz") != "" {
			t.Errorf("%q is not one word in lower case", typ.Name)
		}
	}
}
