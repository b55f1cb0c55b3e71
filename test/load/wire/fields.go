package wire

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// field is one field of a message: a number in Int, or bytes in Bytes.
type field struct {
	Num   int
	Int   uint64
	Bytes []byte
}

// each calls f with every field of a message that holds a number or bytes, in the order they come,
// until f returns an error.
func each(message []byte, f func(field) error) error {
	for len(message) > 0 {
		num, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return malformed(n)
		}
		message = message[n:]
		v := field{Num: int(num)}
		switch kind {
		case protowire.VarintType:
			v.Int, n = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			v.Bytes, n = protowire.ConsumeBytes(message)
		default:
			n = protowire.ConsumeFieldValue(num, kind, message)
		}
		if n < 0 {
			return malformed(n)
		}
		message = message[n:]
		if kind != protowire.VarintType && kind != protowire.BytesType {
			continue
		}
		if err := f(v); err != nil {
			return err
		}
	}
	return nil
}

func malformed(n int) error {
	return fmt.Errorf("wire: not a protocol buffer: %w", protowire.ParseError(n))
}

// at returns the bytes at the end of a path of field numbers, or nil. Of repeated fields it takes the
// last, as a decoder does.
func at(message []byte, path ...int) ([]byte, error) {
	for _, num := range path {
		var found []byte
		err := each(message, func(f field) error {
			if f.Num == num {
				found = f.Bytes
			}
			return nil
		})
		if err != nil || found == nil {
			return nil, err
		}
		message = found
	}
	return message, nil
}
