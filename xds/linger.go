package xds

import "time"

// maxLingering bounds the clients that are remembered after they left: of more, the first ones go.
const maxLingering = 10_000

// departures are the clients that left, in the order in which they are to be forgotten. The zero value
// is empty.
type departures struct{ queue []departure }

type departure struct {
	id    string
	until time.Time
}

// add notes that a client left and returns those that there is no room for any more.
func (d *departures) add(id string, until time.Time) []string {
	d.queue = append(d.queue, departure{id, until})
	if len(d.queue) <= maxLingering {
		return nil
	}
	return d.take(1)
}

// due returns the clients that are to be forgotten, and forgets them itself.
func (d *departures) due(now time.Time) []string {
	n := 0
	for n < len(d.queue) && !now.Before(d.queue[n].until) {
		n++
	}
	return d.take(n)
}

func (d *departures) all() []string { return d.take(len(d.queue)) }

func (d *departures) take(n int) []string {
	ids := make([]string, 0, n)
	for _, e := range d.queue[:n] {
		ids = append(ids, e.id)
	}
	clear(d.queue[:n])
	if d.queue = d.queue[n:]; len(d.queue) == 0 {
		d.queue = nil
	}
	return ids
}
