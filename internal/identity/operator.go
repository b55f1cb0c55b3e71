package identity

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxOperatorFile bounds the file of an operator's token.
const maxOperatorFile = 4 << 10

// Operator is whoever runs the control plane: they prove it by the token in a file. It is safe for concurrent
// use.
type Operator struct{ file string }

// OpenOperator returns the operator whose token is in a file. It is an error if there is none now.
func OpenOperator(file string) (*Operator, error) {
	o := &Operator{file}
	_, err := o.token()
	return o, err
}

// Is reports whether a secret is the operator's token. The file is read each time, so that another token
// in it counts at once; while it cannot be read nobody is the operator.
func (o *Operator) Is(secret string) (bool, error) {
	want, err := o.token()
	if err != nil {
		return false, err
	}
	given, wanted := NewToken(secret).digest(), want.digest()
	return subtle.ConstantTimeCompare(given[:], wanted[:]) == 1, nil
}

func (o *Operator) token() (Token, error) {
	f, err := os.Open(o.file)
	if err != nil {
		return Token{}, fmt.Errorf("the operator's token cannot be read: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	raw, err := io.ReadAll(io.LimitReader(f, maxOperatorFile+1))
	switch secret := strings.TrimSpace(string(raw)); {
	case err != nil:
		return Token{}, fmt.Errorf("the operator's token cannot be read: %w", err)
	case len(raw) > maxOperatorFile:
		return Token{}, fmt.Errorf("the file %s of the operator's token has more than %d bytes", o.file, maxOperatorFile)
	case secret == "":
		return Token{}, errors.New("the file " + o.file + " of the operator's token is empty")
	default:
		return NewToken(secret), nil
	}
}
