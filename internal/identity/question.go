package identity

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Access is what is wanted of a service.
type Access string

// The accesses, in Consul's words.
const (
	Read  Access = "read"
	Write Access = "write"
)

// Question asks whether a token has an access to a service. It is comparable.
type Question struct {
	Service string
	Access  Access
}

// String returns the right in Consul's words.
func (q Question) String() string { return fmt.Sprintf("service:%s on %q", q.Access, q.Service) }

// Authorizer asks whoever knows the rights of tokens.
type Authorizer interface {
	// Authorize answers each question for the token; without a token, for whoever has none. The error is
	// [ErrACLsOff], [ErrUnknownToken], an [*Unreachable], or says what is wrong with the question.
	Authorize(ctx context.Context, token Token, questions []Question) ([]bool, error)
}

// Why an [Authorizer] has no answers.
var (
	// ErrACLsOff means that there are no rights to ask for: everyone may do everything.
	ErrACLsOff = errors.New("ACLs are off in Consul")
	// ErrUnknownToken means that the token does not exist, or not any more.
	ErrUnknownToken = errors.New("the token does not exist, or not any more")
)

// Unreachable means that there is nobody to answer now, whatever the question.
type Unreachable struct{ Reason string }

// Error implements error.
func (u *Unreachable) Error() string { return u.Reason }

// RefusalKind is what a client that is refused should make of it.
type RefusalKind string

// The kinds of refusals.
const (
	// Unauthenticated clients have not proved who they are.
	Unauthenticated RefusalKind = "unauthenticated"
	// Denied clients lack a right.
	Denied RefusalKind = "denied"
	// Unavailable clients should try again: it could not be found out.
	Unavailable RefusalKind = "unavailable"
)

// Refusal is why a client is not served, or not any longer, in words for that client: they say nothing
// of others.
type Refusal struct {
	Kind RefusalKind
	Text string
}

// Error implements error.
func (r *Refusal) Error() string { return r.Text }

func refuse(kind RefusalKind, format string, args ...any) *Refusal {
	return &Refusal{Kind: kind, Text: fmt.Sprintf(format, args...)}
}

// spelled returns the questions to ask for one: the rules of ACLs mind the case of names and look-ups
// ignore it, so whoever gets what a look-up finds needs the right on each name that it finds.
func (q Question) spelled(names []string) []Question {
	if len(names) == 0 {
		return []Question{q}
	}
	list := make([]Question, 0, len(names))
	for _, name := range names {
		list = append(list, Question{Service: name, Access: q.Access})
	}
	return list
}

// spelling is a text that is equal for equal lists of names.
func spelling(names []string) string { return strings.Join(names, "\n") }
