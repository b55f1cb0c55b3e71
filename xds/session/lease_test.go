package session_test

import (
	"testing"

	"github.com/catenary-mesh/catenary/xds/session"
)

func TestDeltaTTL(t *testing.T) {
	run(t, session.Delta, map[string]string{
		"a heartbeat after half the time": `
			offer route/r=1~10s route/s=1
			features xds.config.supports-resource-ttl
			ask route r s
			> route +r=1~10s +s=1
			wake 5s
			ack route
			wake 5s
			pass 4999ms
			pass 1ms
			> route ~r=1
			wake 5s
			ack route
			pass 5s
			> route ~r=1`,
		"a client without the feature hears of none": `
			offer route/r=1~10s
			features xds.config.resource-in-sotw
			ask route r
			> route +r=1
			ack route
			wake none
			pass 10s`,
		"the node counts in the first message alone": `
			offer route/r=1~10s
			ask cluster
			> cluster nothing
			features xds.config.supports-resource-ttl
			ask route r
			> route +r=1`,
		"a new version begins the time anew": `
			offer route/r=1~10s
			features xds.config.supports-resource-ttl
			ask route r
			> route +r=1~10s
			ack route
			pass 4s
			offer route/r=2~10s
			> route +r=2~10s
			ack route
			pass 4s
			wake 1s
			pass 1s
			> route ~r=2`,
		"a new version without one ends it": `
			offer route/r=1~10s
			features xds.config.supports-resource-ttl
			ask route r
			> route +r=1~10s
			ack route
			offer route/r=2
			> route +r=2
			ack route
			wake none
			pass 10s`,
		"no heartbeat while a response is unanswered, and all of it once the time is over": `
			offer route/r=1~10s
			features xds.config.supports-resource-ttl
			ask route r
			> route +r=1~10s
			pass 10s
			ack route
			> route +r=1~10s`,
		"a heartbeat beside an update": `
			offer route/r=1~10s route/s=1
			features xds.config.supports-resource-ttl
			ask route r s
			> route +r=1~10s +s=1
			ack route
			pass 4s
			offer route/s=2
			> route +s=2
			pass 1s
			offer route/s=3
			ack route
			> route +s=3 ~r=1`,
		"what is given up or gone is not renewed": `
			offer route/r=1~10s route/s=1~10s
			features xds.config.supports-resource-ttl
			ask route r s
			> route +r=1~10s +s=1~10s
			ack route
			drop route r
			gone route/s
			> route -s
			ack route
			pass 5s
			wake none`,
		"a refused heartbeat is followed by the resource": `
			offer route/r=1~10s
			features xds.config.supports-resource-ttl
			ask route r
			> route +r=1~10s
			ack route
			pass 5s
			> route ~r=1
			nack route no body
			> route +r=1~10s
			ack route
			status route SYNCED`,
		"what stays in force after a refusal is renewed": `
			offer route/r=1~10s
			features xds.config.supports-resource-ttl
			ask route r
			> route +r=1~10s
			ack route
			pass 4s
			offer route/r=2~10s
			> route +r=2~10s
			nack route no
			> route +r=1~10s
			ack route
			pass 5s
			> route ~r=1`,
		"what the client brought along is renewed at once": `
			offer route/r=1~10s
			features xds.config.supports-resource-ttl
			ask route r=1
			> route ~r=1
			ack route
			pass 5s
			> route ~r=1`,
		"clusters too": `
			offer cluster/a=1~10s
			features xds.config.supports-resource-ttl
			ask cluster
			> cluster +a=1~10s
			ack cluster
			pass 5s
			> cluster ~a=1`,
	})
}

func TestSotWTTL(t *testing.T) {
	run(t, session.SotW, map[string]string{
		"wrapped, and a heartbeat of the whole version": `
			offer route/r=1~10s route/s=1
			features xds.config.resource-in-sotw xds.config.supports-resource-ttl
			ask route r s
			> route r=1~10s s=1
			ack route
			pass 5s
			> route ~r`,
		"the other name of the feature": `
			offer route/r=1~10s
			features xds.config.supports-resource-in-sotw xds.config.supports-resource-ttl
			ask route r
			> route r=1~10s`,
		"a client that takes no wrapper hears of none": `
			offer route/r=1~10s
			features xds.config.supports-resource-ttl
			ask route r
			> route r=1
			ack route
			wake none`,
		"a wrapper alone is no reason to send one": `
			offer route/r=1~10s
			features xds.config.resource-in-sotw
			ask route r
			> route r=1`,
		"beside an update the resource is sent again": `
			offer route/r=1~10s route/s=1
			features xds.config.resource-in-sotw xds.config.supports-resource-ttl
			ask route r s
			> route r=1~10s s=1
			ack route
			pass 4s
			offer route/s=2
			> route s=2
			pass 1s
			offer route/s=3
			ack route
			> route r=1~10s s=3`,
		"a full set is sent again, for it has no heartbeats": `
			offer cluster/a=1~10s cluster/b=1
			features xds.config.resource-in-sotw xds.config.supports-resource-ttl
			ask cluster
			> cluster a=1~10s b=1
			ack cluster
			pass 5s
			> cluster a=1~10s b=1
			ack cluster
			wake 5s`,
		"names given up leave no version for a heartbeat": `
			offer route/r=1~10s route/s=1
			features xds.config.resource-in-sotw xds.config.supports-resource-ttl
			ask route r s
			> route r=1~10s s=1
			ack route
			ask route r
			pass 5s
			> route r=1~10s`,
	})
}
