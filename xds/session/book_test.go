package session_test

import (
	"strings"
	"testing"

	"github.com/catenary-mesh/catenary/xds/session"
)

// book is what is known of the names of a type: each with its standing, the version that the client has or
// was sent ("?" behind it where the content is not known), and behind a slash what it refused.
func (sc *script) book(typ string) string {
	sc.t.Helper()
	standings := map[session.Standing]string{
		session.Unsent: "unsent", session.Unanswered: "unanswered", session.Accepted: "accepted",
		session.Denied: "denied", session.Gone: "gone",
	}
	var list []string
	for _, it := range sc.s.Book(sc.offer) {
		if it.Type.Name != typ {
			continue
		}
		text := it.Name + "=" + standings[it.Standing]
		if it.Version != "" {
			text += ":" + it.Version
		}
		switch {
		case it.Version != "" && it.Resource == nil:
			text += "?"
		case it.Resource != nil && it.Resource.Version != it.Version:
			sc.t.Errorf("%s has the version %s, and its content has %s", it.Name, it.Version, it.Resource.Version)
		}
		if it.Refused != "" {
			text += "/" + it.Refused
			if it.Rejected == nil {
				text += "?"
			}
			if it.Nack == nil || it.Nack.Message == "" {
				sc.t.Errorf("%s was refused without a reason", it.Name)
			}
		}
		list = append(list, text)
	}
	return strings.Join(list, " ")
}

func TestTheBookKnowsWhatTheClientHas(t *testing.T) {
	run(t, session.Delta, map[string]string{
		"a name on its way": `
			offer cluster/a=1 cluster/b=1
			ask cluster a c
			> cluster +a=1 -c
			book cluster a=unanswered:1 c=unanswered
			ack cluster
			book cluster a=accepted:1 c=gone
			offer cluster/a=2
			> cluster +a=2
			book cluster a=unanswered:2 c=gone`,
		"all there is": `
			offer cluster/a=1
			ask cluster
			> cluster +a=1
			offer cluster/b=1
			book cluster a=unanswered:1 b=unsent`,
		"a refusal keeps what was accepted": `
			offer cluster/a=1 cluster/b=1
			ask cluster
			> cluster +a=1 +b=1
			ack cluster
			offer cluster/a=2
			> cluster +a=2
			nack cluster cluster a: bad
			book cluster a=denied:1/2 b=accepted:1
			offer cluster/b=2
			> cluster +b=2
			nack cluster cluster b: bad too
			book cluster a=denied:1/2 b=denied:1/2
			offer cluster/a=3
			> cluster +a=3
			book cluster a=unanswered:3 b=denied:1/2`,
		"never accepted": `
			offer cluster/a=1
			ask cluster
			> cluster +a=1
			nack cluster bad
			book cluster a=denied/1`,
		"what another stream brought": `
			offer cluster/a=1 cluster/b=2
			keep cluster a=1 b=1
			> cluster +b=2
			book cluster a=accepted:1 b=unanswered:2`,
		"unknown": `
			unknown endpoint/a
			ask endpoint a
			book endpoint a=unsent`,
		"removed": `
			offer cluster/a=1
			ask cluster
			> cluster +a=1
			ack cluster
			gone cluster/a
			> cluster -a
			book cluster a=unanswered:1
			ack cluster
			book cluster`,
	})
	run(t, session.SotW, map[string]string{
		"a full set": `
			offer cluster/a=1 endpoint/a=1
			ask cluster
			> cluster a=1
			ack cluster
			ask endpoint a b
			> endpoint a=1 b=
			ack endpoint
			book cluster a=accepted:1
			book endpoint a=accepted:1 b=gone`,
	})
}
