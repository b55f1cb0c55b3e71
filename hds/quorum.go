package hds

// Verdict is what the votes on an endpoint come to.
type Verdict uint8

// The verdicts. Unknown leaves the endpoint to Consul's checks.
const (
	Unknown Verdict = iota
	Up
	Down
)

// String returns the word for people.
func (v Verdict) String() string { return [...]string{"unknown", "up", "down"}[min(int(v), 2)] }

// Vote is what one checker says of an endpoint.
type Vote uint8

// The votes. NoVote is that of a checker whose first probe cannot have ended, or that is silent. A timeout
// counts as down.
const (
	NoVote Vote = iota
	VoteUp
	VoteDown
	VoteTimeout
)

// String returns the word for people.
func (v Vote) String() string { return [...]string{"none", "up", "down", "timeout"}[min(int(v), 3)] }

// Ballot is a checker's fresh vote on an endpoint that it has the duty to probe.
type Ballot struct {
	// Checker is its identity, Place its region and zone, which is zero where they are not known.
	Checker string
	Place   Place
	Vote    Vote
	// Repeated is set when two reports in a row say so.
	Repeated bool
}

// Place is a region and zone.
type Place struct{ Region, Zone string }

// Split is how zones disagree about an endpoint.
type Split uint8

// The splits. With Remote, those of the endpoint's own zone reach it and all others do not. With OneZone, all
// who do not reach it are in one zone, and others do reach it.
const (
	NoSplit Split = iota
	Remote
	OneZone
)

// Tally is what the votes come to at one moment: Unknown without a quorum.
type Tally struct {
	Verdict    Verdict
	Split      Split
	Up, Down   int
	Checkers   int
	DownInZone Place
}

// Count counts the votes on an endpoint at the place, one ballot for each checker that has the duty. More
// than half down is down, of two votes or more; a checker that is the only one decides when it has
// repeated itself. Silence counts for nothing.
func Count(at Place, ballots []Ballot) Tally {
	t := Tally{Checkers: len(ballots)}
	for _, b := range ballots {
		switch b.Vote {
		case VoteUp:
			t.Up++
		case VoteDown, VoteTimeout:
			t.Down++
		case NoVote:
		}
	}
	votes := t.Up + t.Down
	if votes == 0 || (votes == 1 && (len(ballots) > 1 || !ballots[0].Repeated)) {
		return t
	}
	t.Verdict = Up
	if t.Down*2 > votes {
		t.Verdict = Down
		t.zones(at, ballots)
	}
	return t
}

// zones looks for a split among votes that come to down.
func (t *Tally) zones(at Place, ballots []Ballot) {
	var down Place
	oneDown, upElsewhere := true, false
	nearUp, nearDown := 0, 0
	for _, b := range ballots {
		near := at != Place{} && b.Place == at
		switch b.Vote {
		case VoteDown, VoteTimeout:
			if near {
				nearDown++
			}
			oneDown = oneDown && b.Place != Place{} && (down == Place{} || down == b.Place)
			down = b.Place
		case VoteUp:
			if near {
				nearUp++
			}
		case NoVote:
		}
	}
	for _, b := range ballots {
		upElsewhere = upElsewhere || (b.Vote == VoteUp && b.Place != Place{} && b.Place != down)
	}
	switch {
	case nearUp > 0 && nearDown == 0:
		t.Verdict, t.Split = Up, Remote
	case oneDown && upElsewhere:
		t.Split, t.DownInZone = OneZone, down
	}
}
