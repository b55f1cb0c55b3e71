package session_test

import (
	"testing"

	"github.com/catenary-mesh/catenary/xds/session"
)

func TestOrder(t *testing.T) {
	run(t, session.Delta, map[string]string{
		"a turn sends clusters, endpoints, listeners, routes": `
			offer route/r=1 listener/l=1 endpoint/a=1 cluster/a=1
			ask route r ; ask listener ; ask endpoint a ; ask cluster
			> cluster +a=1
			> endpoint +a=1
			> listener +l=1
			> route +r=1`,
		"one response of a type is on the wire": `
			offer cluster/a=1
			ask cluster
			> cluster +a=1
			offer cluster/a=2
			offer cluster/a=3 cluster/b=1
			ack cluster
			> cluster +a=3 +b=1`,
		"a change that is undone while on the wire is not sent": `
			offer cluster/a=1
			ask cluster
			> cluster +a=1
			offer cluster/a=2
			offer cluster/a=1
			ack cluster`,
		"a route waits for its clusters": `
			offer cluster/a=1 cluster/b=1 route/r=1>a,b route/s=1>c
			ask cluster ; ask route r s
			> cluster +a=1 +b=1
			> route +s=1
			wake 1s
			ack route
			ack cluster
			> route +r=1`,
		"a route waits until the endpoints of its cluster are on their way": `
			offer cluster/a=1 endpoint/a=1 route/r=1>a
			ask cluster ; ask route r
			> cluster +a=1
			ack cluster
			wake 1s
			ask endpoint a
			> endpoint +a=1
			> route +r=1`,
		"a route waits no longer than a second for the client to ask for endpoints": `
			offer cluster/a=1 endpoint/a=1 route/r=1>a
			ask cluster ; ask route r
			> cluster +a=1
			ack cluster
			pass 999ms
			pass 1ms
			> route +r=1`,
		"a route waits no longer than a second": `
			offer cluster/a=1 route/r=1>a
			ask cluster ; ask route r
			> cluster +a=1
			pass 999ms
			wake 1ms
			pass 1ms
			> route +r=1 overdue`,
		"a route never goes before its cluster": `
			offer cluster/a=1 route/r=1>a
			ask cluster ; ask route r
			> cluster +a=1
			ack cluster
			> route +r=1
			ack route
			offer cluster/a=2
			> cluster +a=2
			offer cluster/b=1 route/r=2>b
			pass 10s
			wake 4m50s
			ack cluster
			> cluster +b=1
			ack cluster
			> route +r=2`,
		"a cluster that is not changed is not waited for": `
			offer cluster/a=1 cluster/b=1 route/r=1>a
			ask cluster
			> cluster +a=1 +b=1
			ack cluster
			offer cluster/b=2
			> cluster +b=2
			dirty cluster/a
			ask route r
			> route +r=1`,
		"a listener waits for the clusters it names": `
			offer cluster/a=1 listener/l=1>a
			ask cluster ; ask listener
			> cluster +a=1
			ack cluster
			> listener +l=1`,
		"streams that name their clusters do not wait": `
			offer cluster/a=1 route/r=1>a
			ask cluster a ; ask route r
			> cluster +a=1
			> route +r=1
			ack cluster
			gone cluster/a
			> cluster -a`,
		"routes without clusters on the stream do not wait": `
			offer cluster/a=1 route/r=1>a
			ask route r
			> route +r=1`,
		"a refused cluster is not waited for": `
			offer cluster/a=1 route/r=1>a
			ask cluster ; ask route r
			> cluster +a=1
			nack cluster no
			> route +r=1`,
	})
}

func TestWarming(t *testing.T) {
	run(t, session.Delta, map[string]string{
		"a changed cluster is followed by its endpoints": `
			offer cluster/a=1 cluster/b=1>eb endpoint/a=1 endpoint/eb=1
			ask cluster ; ask endpoint a eb
			> cluster +a=1 +b=1
			> endpoint +a=1 +eb=1
			ack cluster
			ack endpoint
			offer cluster/b=2>eb
			> cluster +b=2
			> endpoint +eb=1
			ack endpoint
			ack cluster
			offer cluster/a=2
			> cluster +a=2
			> endpoint +a=1`,
		"endpoints on the wire are followed by those that warm": `
			offer cluster/a=1 endpoint/a=1
			ask cluster ; ask endpoint a
			> cluster +a=1
			> endpoint +a=1
			ack cluster
			offer cluster/a=2
			> cluster +a=2
			ack endpoint
			> endpoint +a=1`,
		"endpoints that were not asked for do not follow": `
			offer cluster/a=1 endpoint/a=1
			ask cluster ; ask endpoint b
			> cluster +a=1
			> endpoint -b`,
		"absent endpoints are said to be so again": `
			offer cluster/a=1
			ask cluster ; ask endpoint a
			> cluster +a=1
			> endpoint -a
			ack cluster
			ack endpoint
			offer cluster/a=2
			> cluster +a=2
			> endpoint -a`,
		"unknown endpoints follow when they are known": `
			offer cluster/a=1 endpoint/a=1
			ask cluster ; ask endpoint a
			> cluster +a=1
			> endpoint +a=1
			ack cluster
			ack endpoint
			offer cluster/a=2 ; unknown endpoint/a
			> cluster +a=2
			offer endpoint/a=1
			> endpoint +a=1`,
	})
	run(t, session.SotW, map[string]string{
		"a changed cluster is followed by its endpoints, the others not": `
			offer cluster/a=1 cluster/b=1 endpoint/a=1 endpoint/b=1
			ask cluster ; ask endpoint a b
			> cluster a=1 b=1
			> endpoint a=1 b=1
			ack cluster
			ack endpoint
			offer cluster/b=2
			> cluster a=1 b=2
			> endpoint b=1`,
	})
}

func TestRemovals(t *testing.T) {
	const up = `
			offer cluster/a=1 endpoint/a=1 listener/l=1 route/r=1>a
			ask cluster ; ask endpoint a ; ask listener
			> cluster +a=1
			> endpoint +a=1
			> listener +l=1
			ack cluster ; ack endpoint ; ack listener
			ask route r
			> route +r=1
			ack route
	`
	run(t, session.Delta, map[string]string{
		"what refers goes before what is referred to": up + `
			gone cluster/a endpoint/a listener/l route/r
			> listener -l
			ack listener
			> route -r
			ack route
			> cluster -a
			ack cluster
			> endpoint -a`,
		"endpoints given up with their cluster need no removal": up + `
			gone cluster/a endpoint/a listener/l route/r
			> listener -l
			ack listener ; drop route r
			> cluster -a
			drop endpoint a ; ack cluster`,
		"a cluster goes after the route that no longer needs it": up + `
			offer cluster/b=1 route/r=2>b ; gone cluster/a
			> cluster +b=1
			ack cluster
			> route +r=2
			wake 1s
			ack route
			> cluster -a`,
		"a cluster waits no longer than a second": up + `
			offer cluster/b=1 route/r=2>b ; gone cluster/a
			> cluster +b=1
			ack cluster
			> route +r=2
			pass 999ms
			pass 1ms
			> cluster -a`,
		"a cluster stays as long as a refusal keeps its route in force": up + `
			offer cluster/b=1 route/r=2>b ; gone cluster/a endpoint/a
			> cluster +b=1
			ack cluster
			> route +r=2
			nack route no
			pass 1h
			offer route/r=3>b
			> route +r=3
			ack route
			> cluster -a
			ack cluster
			> endpoint -a`,
		"a cluster stays until what takes its route's place is sent": up + `
			offer route/r=2>a
			> route +r=2
			offer cluster/b=1 route/r=3>b ; gone cluster/a endpoint/a
			> cluster +b=1
			ack cluster
			pass 10s
			ack route
			> route +r=3
			wake 1s
			ack route
			> cluster -a
			ack cluster
			> endpoint -a`,
		"a cluster stays while what takes its route's place waits": up + `
			offer cluster/b=1 endpoint/b=1 route/r=2>b ; gone cluster/a
			> cluster +b=1
			ack cluster
			pass 900ms
			offer cluster/c=1 endpoint/c=1 route/r=3>c
			> cluster +c=1
			pass 200ms
			ack cluster
			pass 800ms
			> route +r=3
			ack route
			> cluster -a`,
		"a cluster stays while a route that needs it is on the wire and its successor is not": `
			offer cluster/a=1 listener/l=1 route/r=1>a
			ask cluster ; ask listener
			> cluster +a=1
			> listener +l=1
			ack cluster ; ack listener
			ask route r
			> route +r=1
			offer cluster/b=1 route/r=2>b ; gone cluster/a
			> cluster +b=1
			ack cluster
			pass 10s
			ack route
			> route +r=2
			ack route
			> cluster -a`,
		"a cluster that the client brought stays until its routes are sent": `
			offer cluster/b=1 endpoint/b=1 listener/l=1 route/r=2>b
			keep cluster a=1 ; keep listener l=1
			> cluster +b=1
			> listener nothing
			pass 900ms
			ask route r=1
			ack cluster ; ack listener
			pass 500ms
			pass 500ms
			> route +r=2
			ack route
			> cluster -a`,
		"a listener makes room for the one that takes its address": up + `
			gone listener/l ; offer listener/m=1
			> listener +m=1 -l`,
		"endpoints of a service that is gone are taken away": up + `
			gone endpoint/a
			> endpoint -a`,
	})
}
