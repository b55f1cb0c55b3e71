package main

import (
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/catenary-mesh/catenary/consulwatch"
	"github.com/catenary-mesh/catenary/internal/admin"
	"github.com/catenary-mesh/catenary/internal/facts"
	"github.com/catenary-mesh/catenary/internal/metrics"
	"github.com/catenary-mesh/catenary/internal/render"
)

func newWatches() *cobra.Command {
	var addr string
	format := render.NewFormat(render.FormatTable, render.FormatJSON)
	cmd := &cobra.Command{
		Use:   "watches",
		Short: "Show what is followed in Consul, and how",
		Long: `Show what a running server follows in its source: each topic, whether by events or by queries, how
long ago something was heard of it, how well it is known, and how many clients need it.

The exit code is 1 when a topic cannot be read or may not be seen completely, and 3 when the server does
not answer.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := admin.NewClient(addr).Watches(cmd.Context())
			if err != nil {
				return refusedOrUnreachable(err)
			}
			if err := writeWatches(cmd.OutOrStdout(), format.String(), list); err != nil {
				return err
			}
			bad := func(w admin.Watch) bool { return w.State == admin.WatchFailing || w.State == admin.WatchDoubtful }
			if slices.ContainsFunc(list, bad) {
				return found()
			}
			return nil
		},
	}
	adminFlag(cmd, &addr)
	formatFlag(cmd, format)
	return cmd
}

func writeWatches(w io.Writer, format string, list []admin.Watch) error {
	if format == render.FormatJSON {
		return render.JSON(w, list)
	}
	rows := make([][]string, 0, len(list))
	for i := range list {
		watch := &list[i]
		needs := strconv.Itoa(watch.Needs)
		if watch.Lingering {
			needs += " (lingering)"
		}
		rows = append(rows, []string{
			watch.Topic, watch.Mode, watch.Server, strconv.FormatUint(watch.Index, 10), ageOf(watch.AgeSeconds, time.Second), watch.State, needs, watch.Reason,
		})
	}
	return render.Table(w, []string{"topic", "mode", "server", "index", "age", "state", "needs", "reason"}, rows)
}

// consulWatches is what is followed in Consul.
func consulWatches(list []consulwatch.Status, store *facts.Store) []admin.Watch {
	view := store.View()
	_, needs := store.Needs()
	watches := make([]admin.Watch, 0, len(list))
	for i := range list {
		s := &list[i]
		w := admin.Watch{
			Topic: s.Topic.String(), Mode: string(s.Mode), Server: s.Server, Index: s.Index, AgeSeconds: -1,
			Needs: needs[s.Topic], Lingering: s.Lingering,
		}
		if s.Age >= 0 {
			w.AgeSeconds = s.Age.Seconds()
		}
		w.Judge(view.Topic(s.Topic), s.Failure, s.Hidden)
		watches = append(watches, w)
	}
	return watches
}

// fileWatches is what was read from files.
func fileWatches(store *facts.Store) []admin.Watch {
	topics := store.View().Topics()
	_, needs := store.Needs()
	watches := make([]admin.Watch, 0, len(topics))
	for _, t := range topics {
		if t.Topic.Kind == facts.TopicVerdicts {
			continue // these are found out, and not read
		}
		w := admin.Watch{Topic: t.Topic.String(), Mode: "files", AgeSeconds: -1, Needs: needs[t.Topic]}
		w.Judge(t, "", "")
		watches = append(watches, w)
	}
	return watches
}

// measured is what the metrics say of the watches: not for which service each is.
func measured(list []admin.Watch) []metrics.Watch {
	watches := make([]metrics.Watch, 0, len(list))
	for i := range list {
		w := &list[i]
		topic, _, _ := strings.Cut(w.Topic, "/")
		if topic == string(facts.TopicEntries) {
			topic = w.Topic // its name is that of a kind
		}
		watches = append(watches, metrics.Watch{
			Topic: topic, Mode: w.Mode, State: w.State, Server: w.Server, Index: w.Index, Needs: w.Needs,
			Age: time.Duration(w.AgeSeconds * float64(time.Second)),
		})
	}
	return watches
}

// watching lists what a source follows.
func (s *source) watching(store *facts.Store) []admin.Watch {
	if s.watches != nil {
		return s.watches(store)
	}
	return fileWatches(store)
}

// alarm says what a source cannot read, or may not see: clients keep what they have, and miss what is new.
func (s *source) alarm() string {
	for _, p := range s.problems() {
		if p.Code == consulwatch.CodeUnread || p.Code == consulwatch.CodeHidden {
			return p.String()
		}
	}
	return ""
}
