package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/catenary-mesh/catenary/destination"
	"github.com/catenary-mesh/catenary/internal/facts"
	pb "github.com/catenary-mesh/catenary/internal/proto/destination"
	"github.com/catenary-mesh/catenary/internal/render"
)

// formatLinkerd is what Linkerd's proxies are told of a service.
const formatLinkerd = "linkerd"

// linkerdView is what Get and GetProfile answer of a service.
type linkerdView struct {
	Name string `json:"name"`
	// Get is the first message of a stream, Profile that of a stream of profiles.
	Get     any `json:"get"`
	Profile any `json:"profile"`
	// Unexpressed is how many routes no profile can say, and Weakened how many lost their retries and timeout to
	// those; the notes say which.
	Unexpressed int      `json:"unexpressed_routes"`
	Weakened    int      `json:"weakened_routes"`
	Notes       []string `json:"notes,omitempty"`
}

// linkerd prints what Linkerd's proxies are told of a service, from a source.
func (d *dumping) linkerd(cmd *cobra.Command, service string) error {
	if d.adminAddr != "" {
		return errors.New("-o linkerd reads the source; what a running server tells, catenary destination get and profile say")
	}
	if d.overrides.Protocol != "" || d.overrides.ConnectTimeout != 0 || d.gateway != "" {
		return errors.New("-o linkerd: Linkerd's proxies have no overrides")
	}
	from := d.from
	if from.from == "" {
		from.datacenter = ""
	}
	var resolved destination.Resolution
	var described destination.Description
	var name destination.Name
	var wrong error
	look := func(r reading) ([]facts.Topic, string) {
		names := destination.Names{Datacenter: cmp.Or(strings.ToLower(d.from.datacenter), r.datacenter)}
		if name, wrong = names.Parse(service); wrong != nil {
			name, wrong = names.Parse(service + ".service.consul")
		}
		at := destination.Place{Datacenter: r.datacenter, TrustDomain: r.trustDomain}
		if wrong == nil {
			resolved, described = at.Resolve(r.View, name, "", nil), at.Describe(r.View, name, "", nil)
		}
		return append(resolved.Needs, described.Needs...), resolved.Pending
	}
	r, err := from.once(cmd, look)
	if err != nil {
		return err
	}
	if look(r); wrong != nil {
		return fmt.Errorf("SERVICE: %w", wrong)
	}
	for _, p := range described.Problems {
		fmt.Fprintf(cmd.ErrOrStderr(), "catenary: %s\n", p)
	}
	if resolved.State == destination.Unknown {
		return unreachable(fmt.Errorf("%s: %s", name.Host(), resolved.Pending))
	}
	view, err := newLinkerdView(name, resolved, described)
	if err != nil {
		return err
	}
	return render.JSON(cmd.OutOrStdout(), view)
}

func newLinkerdView(name destination.Name, resolved destination.Resolution, described destination.Description) (linkerdView, error) {
	view := linkerdView{
		Name: name.Authority(), Unexpressed: described.Profile.Unexpressed, Weakened: described.Profile.Weakened,
		Notes: append(resolved.Notes, described.Profile.Notes...),
	}
	first := &pb.Update{}
	if resolved.State == destination.Some {
		first.Update = &pb.Update_Add{Add: destination.Encoder{}.Whole(resolved.Set)}
	} else {
		first.Update = &pb.Update_NoEndpoints{NoEndpoints: &pb.NoEndpoints{Exists: resolved.State == destination.NoEndpoints}}
	}
	var err, err2 error
	view.Get, err = plainJSON(first)
	view.Profile, err2 = plainJSON(described.Profile.DestinationProfile)
	return view, errors.Join(err, err2)
}
