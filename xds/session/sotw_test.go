package session_test

import (
	"testing"

	"github.com/catenary-mesh/catenary/xds/session"
)

func TestSotWSubscriptions(t *testing.T) {
	run(t, session.SotW, map[string]string{
		"an empty list is a wildcard": `
			offer cluster/a=1 cluster/b=1
			ask cluster
			> cluster a=1 b=1
			ack cluster
			offer cluster/c=1
			> cluster a=1 b=1 c=1`,
		"an empty list after a name is none": `
			offer cluster/a=1 cluster/b=1
			ask cluster a
			> cluster a=1
			ack cluster
			ask cluster
			offer cluster/a=2`,
		"an empty list after a star is none": `
			offer cluster/a=1
			ask cluster *
			> cluster a=1
			ack cluster
			ask cluster
			offer cluster/a=2`,
		"a name after the wildcard leaves it": `
			offer cluster/a=1 cluster/b=1
			ask cluster
			> cluster a=1 b=1
			ack cluster
			ask cluster a
			> cluster a=1
			ack cluster
			offer cluster/b=2
			offer cluster/a=2
			> cluster a=2`,
		"a star and a name": `
			offer cluster/a=1 cluster/hidden.x=1
			ask cluster * hidden.x
			> cluster a=1 hidden.x=1
			ack cluster
			ask cluster *
			> cluster a=1`,
		"an empty wildcard is answered": `
			ask listener
			> listener nothing`,
		"clusters by name are sent in full": `
			offer cluster/a=1 cluster/b=1
			ask cluster a
			> cluster a=1
			ack cluster
			ask cluster a b
			> cluster a=1 b=1
			ack cluster
			offer cluster/b=2
			> cluster a=1 b=2`,
		"an absent listener is answered by its omission": `
			offer listener/a=1
			ask listener a
			> listener a=1
			ack listener
			ask listener a b
			> listener a=1
			ack listener
			offer listener/b=1
			> listener a=1 b=1`,
		"an unknown listener does not hold the others back": `
			offer listener/a=1
			unknown listener/b
			ask listener a b
			> listener a=1
			ack listener
			offer listener/b=1
			> listener a=1 b=1`,
		"endpoints are sent as they change": `
			offer endpoint/a=1 endpoint/b=1
			ask endpoint a b
			> endpoint a=1 b=1
			ack endpoint
			offer endpoint/b=2
			> endpoint b=2`,
		"only new names are answered": `
			offer endpoint/a=1 endpoint/b=1
			ask endpoint a
			> endpoint a=1
			ack endpoint
			ask endpoint a b
			> endpoint b=1`,
		"a name dropped and asked for again is sent again": `
			offer endpoint/a=1 endpoint/b=1
			ask endpoint a b
			> endpoint a=1 b=1
			ack endpoint
			ask endpoint a
			ask endpoint a b
			> endpoint b=1`,
		"a stale nonce is ignored and the next message has it all": `
			offer endpoint/a=1 endpoint/b=1
			ask endpoint a
			> endpoint a=1
			late endpoint a b
			status endpoint SENT
			ask endpoint a b
			> endpoint b=1`,
		"a stale nonce when nothing is unanswered is ignored": `
			offer endpoint/a=1 endpoint/b=1
			ask endpoint a
			> endpoint a=1
			ack endpoint
			late endpoint a b
			ask endpoint a`,
		"a name given up and asked for again while on the wire is sent again": `
			offer endpoint/a=1
			ask endpoint a
			> endpoint a=1
			ack endpoint
			offer endpoint/a=2
			> endpoint a=2
			late endpoint
			late endpoint a
			ack endpoint
			> endpoint a=2`,
		"a subscription joins an acknowledgement": `
			offer endpoint/a=1 endpoint/b=1
			ask endpoint a
			> endpoint a=1
			ask endpoint a b
			> endpoint b=1
			ack endpoint
			status endpoint SYNCED`,
	})
}

func TestSotWAbsence(t *testing.T) {
	run(t, session.SotW, map[string]string{
		"absent endpoints are an empty assignment": `
			ask endpoint a
			> endpoint a=
			ack endpoint
			dirty all
			offer endpoint/a=1
			> endpoint a=1
			ack endpoint
			gone endpoint/a
			> endpoint a=`,
		"an absent route is silence": `
			ask route r
			offer route/r=1
			> route r=1
			ack route
			gone route/r
			offer route/r=1
			> route r=1`,
		"unknown endpoints are silence": `
			unknown endpoint/a
			ask endpoint a
			gone endpoint/a
			> endpoint a=`,
		"what is gone is omitted": `
			offer cluster/a=1 cluster/b=1
			ask cluster
			> cluster a=1 b=1
			ack cluster
			gone cluster/a
			> cluster b=1`,
		"what is gone stays while the offer is incomplete": `
			offer cluster/a=1 cluster/b=1
			ask cluster
			> cluster a=1 b=1
			ack cluster
			incomplete
			gone cluster/a
			offer cluster/b=2
			> cluster a=1 b=2
			ack cluster
			complete
			> cluster b=2`,
		"a new client gets what there is at once": `
			incomplete
			offer cluster/a=1
			ask cluster
			> cluster a=1`,
		"a client with a version waits for a complete offer": `
			incomplete
			offer cluster/a=1 listener/l=1 endpoint/a=1
			ask cluster =v ; ask listener =v
			ask endpoint a b =v
			> endpoint a=1
			ack endpoint
			complete
			> cluster a=1
			> endpoint a=1
			> listener l=1
			ack endpoint
			ack listener
			ack cluster
			pass 1s
			> endpoint b=`,
		"a client with a version gets no listeners before they can all go": `
			offer cluster/a=1 listener/l=1>a listener/m=1
			ask cluster ; ask listener =v
			> cluster a=1
			ack cluster
			> listener l=1 m=1`,
		"clusters are first united, then cut": `
			offer cluster/a=1 route/r=1>a
			ask cluster
			> cluster a=1
			ack cluster
			ask route r
			> route r=1
			ack route
			offer cluster/b=1 route/r=2>b ; gone cluster/a
			> cluster a=1 b=1
			ack cluster
			> route r=2
			ack route
			> cluster b=1`,
	})
}

// TestSotWReconnectWithNames: a client that comes back holds at most what it names, and all that its version stands
// for. What is not known yet holds others up only where it could be taken away.
func TestSotWReconnectWithNames(t *testing.T) {
	before := newScript(t, session.SotW)
	before.run(`
		offer listener/a=1 listener/b=1
		ask listener a b
		> listener a=1 b=1
		ack listener`)
	run(t, session.SotW, map[string]string{
		"what is not known may be held": `
			incomplete
			offer listener/a=1
			unknown listener/b
			ask listener a b =older
			offer listener/a=2
			status listener NOT_SENT
			offer listener/b=1
			> listener a=2 b=1`,
		"what is not known and is new is not held": `
			incomplete
			offer listener/a=1
			unknown listener/c
			ask listener a =older
			> listener a=1
			ack listener
			ask listener a c
			offer listener/a=2
			> listener a=2
			ack listener
			offer listener/c=1
			> listener a=2 c=1`,
		"a new name does not wait for what may be held": `
			incomplete
			unknown listener/a listener/c
			ask listener a =older
			ask listener a c
			offer listener/c=1
			status listener NOT_SENT
			offer listener/a=1
			> listener a=1 c=1`,
		"what was given up is not held": `
			incomplete
			offer listener/a=1
			unknown listener/b
			ask listener a b =older
			status listener NOT_SENT
			ask listener a
			> listener a=1`,
		"what is not known is not held by the version": `
			incomplete
			offer listener/a=1 listener/b=1
			unknown listener/c
			ask listener a b c =` + before.info["listener"] + `
			> listener a=1 b=1
			ack listener
			offer listener/c=1
			> listener a=1 b=1 c=1`,
		"what is known not to be there holds nothing up": `
			offer listener/a=1
			ask listener a b =older
			> listener a=1`,
	})
}

// TestSotWReconnectUnchanged: only a wildcard of a full-state type can be trusted by its version.
func TestSotWReconnectUnchanged(t *testing.T) {
	before := newScript(t, session.SotW)
	before.run(`
		offer cluster/a=1 cluster/b=1
		ask cluster
		> cluster a=1 b=1
		ack cluster
		offer cluster/a=2
		> cluster a=2 b=1`)
	after := newScript(t, session.SotW)
	after.run(`
		incomplete
		offer cluster/b=1 cluster/a=2
		ask cluster =` + before.info["cluster"] + `
		status cluster NOT_SENT
		complete
		status cluster SYNCED
		offer cluster/b=2
		> cluster a=2 b=2`)
	changed := newScript(t, session.SotW)
	changed.run(`
		offer cluster/a=2 cluster/b=2
		ask cluster =` + before.info["cluster"] + `
		> cluster a=2 b=2`)
	named := newScript(t, session.SotW)
	named.run(`
		offer cluster/b=1 cluster/a=2
		ask cluster a b =` + before.info["cluster"] + `
		> cluster a=2 b=1`)
}
