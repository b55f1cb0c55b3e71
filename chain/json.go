package chain

import (
	"encoding/json"
	"fmt"
	"time"
)

// The types below print durations as Consul's /v1/discovery-chain does: as text, ahead of the other
// fields. Elsewhere in a chain durations are numbers of nanoseconds.

// MarshalJSON implements [json.Marshaler].
func (r Resolver) MarshalJSON() ([]byte, error) {
	type plain Resolver
	return json.Marshal(struct {
		ConnectTimeout string `json:",omitempty"`
		plain
	}{r.ConnectTimeout.String(), plain(r)})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (r *Resolver) UnmarshalJSON(data []byte) error {
	type plain Resolver
	in := struct {
		ConnectTimeout duration
		*plain
	}{plain: (*plain)(r)}
	err := json.Unmarshal(data, &in)
	r.ConnectTimeout = time.Duration(in.ConnectTimeout)
	return err
}

// MarshalJSON implements [json.Marshaler].
func (t Target) MarshalJSON() ([]byte, error) {
	type plain Target
	return json.Marshal(struct {
		ConnectTimeout string `json:",omitempty"`
		plain
	}{t.ConnectTimeout.String(), plain(t)})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (t *Target) UnmarshalJSON(data []byte) error {
	type plain Target
	in := struct {
		ConnectTimeout duration
		*plain
	}{plain: (*plain)(t)}
	err := json.Unmarshal(data, &in)
	t.ConnectTimeout = time.Duration(in.ConnectTimeout)
	return err
}

// MarshalJSON implements [json.Marshaler].
func (d RouteDestination) MarshalJSON() ([]byte, error) {
	type plain RouteDestination
	return json.Marshal(struct {
		RequestTimeout string `json:",omitempty"`
		IdleTimeout    string `json:",omitempty"`
		plain
	}{durationText(d.RequestTimeout), durationText(d.IdleTimeout), plain(d)})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (d *RouteDestination) UnmarshalJSON(data []byte) error {
	type plain RouteDestination
	in := struct {
		RequestTimeout, IdleTimeout duration
		*plain
	}{plain: (*plain)(d)}
	err := json.Unmarshal(data, &in)
	d.RequestTimeout, d.IdleTimeout = time.Duration(in.RequestTimeout), time.Duration(in.IdleTimeout)
	return err
}

// durationText prints nothing for 0, so that the field is left out.
func durationText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// duration reads text such as "3s" or a number of nanoseconds.
type duration time.Duration

// UnmarshalJSON implements [json.Unmarshaler].
func (d *duration) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) != nil {
		return json.Unmarshal(data, (*int64)(d))
	}
	parsed, err := parseDuration(text)
	*d = duration(parsed)
	return err
}

func parseDuration(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("duration %q: write it like \"3s\" or as a number of nanoseconds", text)
	}
	return d, nil
}
