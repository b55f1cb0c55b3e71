package session_test

import (
	"strings"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/xds/session"
)

func TestDeltaRefusal(t *testing.T) {
	run(t, session.Delta, map[string]string{
		"the same content is not sent again": `
			offer cluster/a=1
			ask cluster
			> cluster +a=1
			nack cluster no good
			status cluster NACKED
			dirty all
			dirty cluster/a
			offer cluster/a=2
			> cluster +a=2
			status cluster SENT
			ack cluster
			status cluster SYNCED`,
		"the blamed resource is left out, tried alone, then held": `
			offer cluster/aa=1 cluster/bb=1 cluster/cc=1
			ask cluster
			> cluster +aa=1 +bb=1 +cc=1
			nack cluster cluster bb: bad
			> cluster +aa=1 +cc=1
			ack cluster
			> cluster +bb=1
			nack cluster cluster bb: bad
			dirty all
			status cluster NACKED
			offer cluster/bb=2
			> cluster +bb=2`,
		"a name within the blamed one is not blamed": `
			offer cluster/api=1 cluster/v1.api=1
			ask cluster api v1.api
			> cluster +api=1 +v1.api=1
			nack cluster v1.api is bad
			> cluster +api=1
			ack cluster
			> cluster +v1.api=1
			ack cluster`,
		"with no name in the text each is tried alone": `
			offer cluster/aa=1 cluster/bb=1
			ask cluster
			> cluster +aa=1 +bb=1
			nack cluster who knows
			> cluster +aa=1
			ack cluster
			> cluster +bb=1
			nack cluster who knows
			dirty all
			status cluster NACKED`,
		"a refusal that was bad company ends": `
			offer cluster/aa=1 cluster/bb=1
			ask cluster
			> cluster +aa=1 +bb=1
			nack cluster who knows
			> cluster +aa=1
			ack cluster
			> cluster +bb=1
			ack cluster
			status cluster SYNCED`,
		"changes go before retries": `
			offer cluster/aa=1 cluster/bb=1
			ask cluster
			> cluster +aa=1 +bb=1
			offer cluster/cc=1 cluster/bb=2
			nack cluster who knows
			> cluster +bb=2 +cc=1
			ack cluster
			> cluster +aa=1`,
		"removals in a refused response are sent again": `
			offer endpoint/a=1
			ask endpoint a b
			> endpoint +a=1 -b
			nack endpoint no
			> endpoint -b
			nack endpoint no
			dirty all
			status endpoint NACKED`,
		"what was refused and is gone is removed": `
			offer cluster/a=1
			ask cluster
			> cluster +a=1
			nack cluster no
			ask listener ; ask route ; gone cluster/a
			> listener nothing
			ack listener
			> cluster -a
			ack cluster
			status cluster SYNCED`,
		"what was refused may return to what was held": `
			offer cluster/a=1
			ask cluster
			> cluster +a=1
			ack cluster
			offer cluster/a=2
			> cluster +a=2
			nack cluster no
			offer cluster/a=1
			> cluster +a=1
			ack cluster
			status cluster SYNCED`,
		"warming gets the last endpoints that were good": `
			offer cluster/a=1 endpoint/a=1
			ask cluster ; ask endpoint a
			> cluster +a=1
			> endpoint +a=1
			ack cluster
			ack endpoint
			offer endpoint/a=2
			> endpoint +a=2
			nack endpoint no
			offer cluster/a=2
			> cluster +a=2
			> endpoint +a=1
			ack endpoint
			dirty all
			status endpoint NACKED`,
		"a resource that is given up is no longer refused": `
			offer endpoint/a=1
			ask endpoint a
			> endpoint +a=1
			nack endpoint no
			drop endpoint a
			status endpoint NOT_SENT
			ask endpoint a
			> endpoint +a=1`,
		"an empty response that is refused is not sent again": `
			ask cluster
			> cluster nothing
			nack cluster no
			status cluster NACKED
			dirty all
			offer cluster/a=1
			> cluster +a=1
			ack cluster
			status cluster SYNCED`,
		"others are not affected": `
			offer cluster/a=1 listener/l=1
			ask cluster ; ask listener
			> cluster +a=1
			> listener +l=1
			nack listener no
			ack cluster
			offer cluster/a=2
			> cluster +a=2
			status cluster SENT
			status listener NACKED`,
	})
}

func TestSotWRefusal(t *testing.T) {
	run(t, session.SotW, map[string]string{
		"the last good body takes the place of the refused one": `
			offer cluster/aa=1 cluster/bb=1
			ask cluster
			> cluster aa=1 bb=1
			ack cluster
			offer cluster/bb=2
			> cluster aa=1 bb=2
			nack cluster bb: bad
			dirty all
			offer cluster/aa=2
			> cluster aa=2 bb=1
			ack cluster
			status cluster NACKED
			offer cluster/bb=3
			> cluster aa=2 bb=3
			ack cluster
			status cluster SYNCED`,
		"what was never good is left out": `
			offer cluster/aa=1 cluster/bb=1 cluster/cc=1
			ask cluster
			> cluster aa=1 bb=1 cc=1
			nack cluster bb: bad
			> cluster aa=1 cc=1
			ack cluster
			> cluster aa=1 bb=1 cc=1
			nack cluster bb: bad
			offer cluster/cc=2
			> cluster aa=1 cc=2`,
		"a refused removal is sent once more": `
			offer cluster/a=1 cluster/b=1
			ask cluster
			> cluster a=1 b=1
			ack cluster
			gone cluster/a
			> cluster b=1
			nack cluster no
			dirty all
			offer cluster/c=1
			> cluster b=1 c=1`,
		"endpoints are tried alone": `
			offer endpoint/aa=1 endpoint/bb=1
			ask endpoint aa bb
			> endpoint aa=1 bb=1
			nack endpoint what
			> endpoint aa=1
			ack endpoint
			> endpoint bb=1
			nack endpoint what
			dirty all`,
		"routes are tried alone though nothing can be said of another": `
			offer route/aa=1 route/bb=1
			ask route aa bb
			> route aa=1 bb=1
			nack route what
			> route aa=1
			ack route ; ask route aa bb absent
			> route bb=1`,
		"a stale refusal is none": `
			offer cluster/a=1
			ask cluster
			> cluster a=1
			late-nack cluster no
			status cluster SENT`,
	})
}

func TestRefusalIsKept(t *testing.T) {
	sc := newScript(t, session.Delta)
	sc.run(`
		offer cluster/aa=1 cluster/bb=1
		ask cluster
		> cluster +aa=1 +bb=1
		pass 3s
		nack cluster bb ` + strings.Repeat("é", 8<<10) + `
		> cluster +aa=1`)
	st := sc.status("cluster")
	if st.Nack == nil || st.Nacks != 1 || st.Nack.Code != 3 || !st.Nack.At.Equal(sc.now) {
		t.Fatalf("status %+v, nack %+v", st, st.Nack)
	}
	if got := st.Nack.Names; len(got) != 1 || got[0] != "bb" {
		t.Errorf("blamed %q, want bb alone", got)
	}
	if n := len(st.Nack.Message); n > 4<<10 || n < 4<<10-2 {
		t.Errorf("kept %d bytes, want 4 KiB", n)
	}
	if !strings.HasSuffix(st.Nack.Message, "é") {
		t.Error("the text is cut within a character")
	}
	st.Nack.Names[0] = "changed"
	if sc.status("cluster").Nack.Names[0] != "bb" {
		t.Error("a status shares memory with the session")
	}
}

// TestRefusingClientEnds: a client that refuses everything gets a bounded number of responses.
func TestRefusingClientEnds(t *testing.T) {
	for _, text := range []string{"no", "n0 is bad", "n0 n1 n2 n3 n4"} {
		for _, form := range []session.Form{session.SotW, session.Delta} {
			sc := newScript(t, form)
			const resources = 5
			for i := range resources {
				sc.offer.put("cluster/n" + string(rune('0'+i)) + "=1")
			}
			sc.step("ask cluster")
			responses := 0
			for len(sc.out) > 0 {
				responses += len(sc.out)
				sc.out = nil
				sc.step("nack cluster " + text)
			}
			if responses > 2*resources+1 {
				t.Errorf("form %d, %q: %d responses for %d resources", form, text, responses, resources)
			}
			if sc.status("cluster").Sync != session.Nacked {
				t.Errorf("form %d, %q: %s", form, text, sc.status("cluster").Sync)
			}
		}
	}
}

func TestSilentClient(t *testing.T) {
	sc := newScript(t, session.Delta)
	sc.run(`
		ask cluster
		> cluster nothing
		status cluster SENT
		wake 5m0s
		pass 29s
		status cluster SENT
		pass 1s
		status cluster STALE
		wake 4m30s`)
	if want := sc.now.Add(5*time.Minute - 30*time.Second); !sc.s.Deadline().Equal(want) {
		t.Errorf("deadline %v, want %v", sc.s.Deadline(), want)
	}
	sc.run(`
		ack cluster
		status cluster SYNCED
		wake none`)
	if !sc.s.Deadline().IsZero() {
		t.Error("a deadline although everything is answered")
	}
}
