package admin_test

import (
	"testing"

	"github.com/catenary-mesh/catenary/internal/admin"
	"github.com/catenary-mesh/catenary/internal/facts"
)

func TestAWatchIsJudgedByTheWorstThatIsSaidOfIt(t *testing.T) {
	known := facts.TopicStatus{Read: true, Known: true, Complete: true}
	for _, tt := range []struct {
		status          facts.TopicStatus
		failure, hidden string
		state, reason   string
	}{
		{facts.TopicStatus{}, "", "", admin.WatchUnread, ""},
		{known, "", "", admin.WatchCurrent, ""},
		{known, "", "some is hidden", admin.WatchDoubtful, "some is hidden"},
		{known, "away", "some is hidden", admin.WatchFailing, "away"},
		{facts.TopicStatus{Failure: "away"}, "", "", admin.WatchFailing, "away"},
		{facts.TopicStatus{Failure: "no mesh", Off: true}, "", "", admin.WatchOff, "no mesh"},
		{facts.TopicStatus{Failure: "no mesh", Off: true}, "away", "", admin.WatchFailing, "away"},
	} {
		var w admin.Watch
		if w.Judge(tt.status, tt.failure, tt.hidden); w.State != tt.state || w.Reason != tt.reason {
			t.Errorf("%+v: %s (%s); want %s (%s)", tt, w.State, w.Reason, tt.state, tt.reason)
		}
	}
}
