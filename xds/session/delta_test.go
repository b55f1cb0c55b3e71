package session_test

import (
	"testing"

	"github.com/catenary-mesh/catenary/xds/session"
)

func TestDeltaSubscriptions(t *testing.T) {
	run(t, session.Delta, map[string]string{
		"an empty first list is a wildcard": `
			offer cluster/a=1 cluster/b=1
			ask cluster
			> cluster +a=1 +b=1
			ack cluster
			offer cluster/c=1
			> cluster +c=1`,
		"a star is a wildcard": `
			offer cluster/a=1
			ask cluster *
			> cluster +a=1`,
		"an empty list is no wildcard of endpoints": `
			offer endpoint/a=1
			ask endpoint
			ask endpoint *`,
		"the first wildcard is answered even by nothing": `
			ask cluster
			> cluster nothing
			ack cluster
			status cluster SYNCED`,
		"named": `
			offer cluster/a=1 cluster/b=1
			ask cluster a
			> cluster +a=1
			ack cluster
			offer cluster/b=2 cluster/c=1
			offer cluster/a=2
			> cluster +a=2`,
		"names join a wildcard": `
			offer cluster/a=1 cluster/hidden.x=1
			ask cluster
			> cluster +a=1
			ack cluster
			ask cluster hidden.x
			> cluster +hidden.x=1
			ack cluster
			offer cluster/b=1
			> cluster +b=1`,
		"a name under a wildcard is given up and still there": `
			offer cluster/a=1
			ask cluster * a
			> cluster +a=1
			ack cluster
			drop cluster a
			> cluster +a=1`,
		"a name under a wildcard is given up and not part of it": `
			offer cluster/hidden.x=1
			ask cluster * hidden.x
			> cluster +hidden.x=1
			ack cluster
			drop cluster hidden.x
			> cluster -hidden.x`,
		"the wildcard is given up and a name stays": `
			offer cluster/a=1 cluster/b=1
			ask cluster * a
			> cluster +a=1 +b=1
			ack cluster
			drop cluster *
			offer cluster/b=2
			gone cluster/b
			offer cluster/a=2
			> cluster +a=2`,
		"dropping the last name is no wildcard": `
			offer cluster/a=1 cluster/b=1
			ask cluster a
			> cluster +a=1
			ack cluster
			drop cluster a
			ask cluster
			offer cluster/a=2`,
		"an unsubscribed name is not sent again": `
			offer endpoint/a=1 endpoint/b=1
			ask endpoint a b
			> endpoint +a=1 +b=1
			ack endpoint
			drop endpoint a
			offer endpoint/a=2 endpoint/b=2
			> endpoint +b=2`,
		"a name asked for again is sent again": `
			offer endpoint/a=1
			ask endpoint a
			> endpoint +a=1
			ack endpoint
			ask endpoint a
			> endpoint +a=1`,
		"a name asked for again while on the wire is sent again": `
			offer endpoint/a=1
			ask endpoint a
			> endpoint +a=1
			drop endpoint a
			ask endpoint a
			ack endpoint
			> endpoint +a=1`,
		"a name dropped while on the wire is forgotten": `
			offer endpoint/a=1
			ask endpoint a
			> endpoint +a=1
			drop endpoint a
			ack endpoint
			offer endpoint/a=2`,
		"a stale nonce still subscribes and does not accept": `
			offer endpoint/a=1 endpoint/b=1
			ask endpoint a
			> endpoint +a=1
			late endpoint b
			status endpoint SENT
			ack endpoint
			> endpoint +b=1`,
		"a refusal with a stale nonce is none": `
			offer endpoint/a=1
			ask endpoint a
			> endpoint +a=1
			late-nack endpoint bad a
			status endpoint SENT
			ack endpoint
			status endpoint SYNCED`,
		"a client asks for endpoints that no cluster announced": `
			offer endpoint/a=1
			ask endpoint a orphan
			> endpoint +a=1 -orphan`,
	})
}

func TestDeltaAbsence(t *testing.T) {
	run(t, session.Delta, map[string]string{
		"an absent name is answered and remembered": `
			ask endpoint a
			> endpoint -a
			ack endpoint
			dirty endpoint/a
			offer endpoint/a=1
			> endpoint +a=1`,
		"an absent name asked for again is answered again": `
			ask endpoint a
			> endpoint -a
			ack endpoint
			ask endpoint a
			> endpoint -a`,
		"an unknown name is answered when it is known": `
			unknown endpoint/a endpoint/b
			ask endpoint a b
			offer endpoint/a=1
			> endpoint +a=1
			ack endpoint
			gone endpoint/b
			> endpoint -b`,
		"a name that becomes unknown stays as it was": `
			offer endpoint/a=1
			ask endpoint a
			> endpoint +a=1
			ack endpoint
			unknown endpoint/a
			offer endpoint/a=1
			offer endpoint/a=2
			> endpoint +a=2`,
		"what is gone is removed": `
			offer cluster/a=1 cluster/b=1
			ask cluster
			> cluster +a=1 +b=1
			ack cluster
			gone cluster/a
			> cluster -a
			ack cluster
			dirty all`,
		"nothing is removed while the offer is incomplete": `
			offer cluster/a=1 cluster/b=1
			ask cluster
			> cluster +a=1 +b=1
			ack cluster
			incomplete
			gone cluster/a
			offer cluster/b=2
			> cluster +b=2
			ack cluster
			dirty all
			complete
			> cluster -a`,
		"a removal on its way waits when the offer becomes incomplete": `
			offer listener/l=1>a cluster/a=1
			ask cluster ; ask listener
			> cluster +a=1
			ack cluster
			> listener +l=1
			gone cluster/a
			incomplete
			ack listener
			pass 2s
			complete
			> cluster -a`,
		"a new client gets what there is at once": `
			incomplete
			offer cluster/a=1
			ask cluster
			> cluster +a=1
			ack cluster
			offer cluster/b=1
			> cluster +b=1`,
		"what comes back before its removal was sent is not removed": `
			offer route/r=1>a cluster/a=1 listener/l=1
			ask cluster
			> cluster +a=1
			ack cluster
			ask route r
			> route +r=1
			gone cluster/a
			offer cluster/a=1
			ack route
			pass 2s`,
	})
}

func TestDeltaReconnect(t *testing.T) {
	run(t, session.Delta, map[string]string{
		"equal versions are not sent again": `
			offer cluster/a=1 cluster/b=2
			keep cluster a=1 b=1
			> cluster +b=2`,
		"an unchanged wildcard is answered by nothing": `
			offer cluster/a=1
			keep cluster a=1
			> cluster nothing`,
		"what vanished is removed": `
			offer cluster/a=1
			ask listener ; ask route ; keep cluster a=1 b=1
			> listener nothing
			> cluster nothing
			ack cluster
			ack listener
			> cluster -b`,
		"what vanished waits for those who used it to be asked for": `
			offer cluster/a=1 route/r=2>a
			keep cluster a=1 b=1
			> cluster nothing
			ack cluster
			wake 1s
			ask listener
			> listener nothing
			ack listener
			ask route r=1
			> route +r=2
			ack route
			> cluster -b`,
		"what vanished waits no longer than a second": `
			keep cluster b=1
			> cluster nothing
			ack cluster
			pass 1s
			> cluster -b`,
		"what vanished stays while the offer is incomplete": `
			incomplete
			offer cluster/a=2
			keep cluster a=1 b=1
			> cluster +a=2
			ack cluster
			complete
			pass 1s
			> cluster -b`,
		"what returns before the offer is complete is compared": `
			incomplete
			offer cluster/a=1
			keep cluster a=1 b=1
			> cluster nothing
			ack cluster
			offer cluster/b=1
			complete`,
		"listed names that are held do not end a wildcard": `
			offer cluster/a=1 cluster/b=1
			ask cluster a=1
			> cluster +b=1`,
		"names that are not held are names": `
			offer cluster/a=1 cluster/b=1 cluster/c=1
			ask cluster a=1 c
			> cluster +c=1`,
		"names are compared": `
			offer endpoint/a=1 endpoint/b=2
			keep cluster
			> cluster nothing
			ack cluster
			ask endpoint a=1 b=1 c=1 d
			> endpoint +b=2 -d
			ack endpoint
			pass 1s
			> endpoint -c`,
		"a client that does not ask for clusters first may wait for endpoints": `
			offer cluster/a=1 endpoint/a=1 endpoint/b=2
			ask endpoint a=1 b=1
			> endpoint +a=1 +b=2
			ack endpoint
			keep cluster a=1
			> cluster nothing`,
		"endpoints of a cluster that was sent are sent": `
			offer cluster/a=1 cluster/b=2>eb endpoint/a=1 endpoint/eb=1
			keep cluster a=1 b=1
			> cluster +b=2
			ask endpoint a=1 eb=1
			> endpoint +eb=1`,
		"endpoints asked for before their cluster are sent after it": `
			offer cluster/a=2 endpoint/a=1
			ask endpoint a=1
			> endpoint +a=1
			ack endpoint
			keep cluster a=1
			> cluster +a=2
			> endpoint +a=1`,
		"a version of another form is just another version": `
			offer cluster/a=1
			keep cluster a=
			> cluster +a=1`,
	})
}
