package identity

import (
	"time"

	"github.com/catenary-mesh/catenary/internal/facts"
)

// bearer is all that is known of one token. [Verdicts]' lock guards it.
type bearer struct {
	key   digest
	token Token
	// reader is the bearer's name among the facts.
	reader string

	verdicts map[Question]verdict
	// asked are the questions that have no new answer yet, each with who waits for it, if anyone does.
	asked  map[Question]*flight
	queued bool // for a worker, or with one

	grants  map[*Grant]struct{}
	needs   map[Question]facts.Topic // the rights that plans need
	waiting int                      // admissions that wait for an answer

	seen time.Time // when Consul last knew the token
	due  time.Time // when everything is asked again
}

// verdict is the last answer to a question.
type verdict struct {
	allow bool
	at    time.Time
	as    string // the spelling that was asked
}

// flight is a question on its way. The fields beside done are set before it is closed.
type flight struct {
	done chan struct{}
	err  error
}

// live reports whether anybody depends on what is known of the token.
func (b *bearer) live() bool { return len(b.grants) > 0 || len(b.needs) > 0 || b.waiting > 0 }

// questions calls f with each question that somebody depends on, some of them twice.
func (b *bearer) questions(f func(Question)) {
	for g := range b.grants {
		f(g.question)
	}
	for q := range b.needs {
		f(q)
	}
}

// batch returns up to n asked questions, those with someone who waits first.
func (b *bearer) batch(n int) []Question {
	list := make([]Question, 0, min(n, len(b.asked)))
	for _, waited := range []bool{true, false} {
		for q, f := range b.asked {
			if (f != nil) == waited && len(list) < n {
				list = append(list, q)
			}
		}
	}
	return list
}

// land ends the way of a question.
func (b *bearer) land(q Question, err error) {
	if f := b.asked[q]; f != nil {
		f.err = err
		close(f.done)
	}
	delete(b.asked, q)
}

// maxIdleVerdicts is how many verdicts that nobody depends on a token may leave behind: a client can
// ask for any name.
const maxIdleVerdicts = 1024

// prune drops the verdicts that nobody depends on, when there are too many.
func (b *bearer) prune() {
	if len(b.verdicts) <= maxIdleVerdicts+len(b.needs)+len(b.grants) {
		return
	}
	keep := map[Question]verdict{}
	b.questions(func(q Question) {
		if v, ok := b.verdicts[q]; ok {
			keep[q] = v
		}
	})
	b.verdicts = keep
}
