package wire

// Response is a DeltaDiscoveryResponse. Its parts point into the message it was read from.
type Response struct {
	Type, Nonce []byte
	Resources   []Resource
	// Removed are the names of resources that are no more.
	Removed [][]byte
}

// Resource is a resource of a response; Body is the encoded Cluster, ClusterLoadAssignment and so on.
type Resource struct {
	Name, Version, Body []byte
}

// Parse reads a message into r, whose slices it uses again.
func (r *Response) Parse(message []byte) error {
	*r = Response{Resources: r.Resources[:0], Removed: r.Removed[:0]}
	return each(message, func(f field) error {
		switch f.Num {
		case 2:
			resource, err := parseResource(f.Bytes)
			if err != nil {
				return err
			}
			r.Resources = append(r.Resources, resource)
		case 4:
			r.Type = f.Bytes
		case 5:
			r.Nonce = f.Bytes
		case 6:
			r.Removed = append(r.Removed, f.Bytes)
		}
		return nil
	})
}

func parseResource(b []byte) (Resource, error) {
	var r Resource
	err := each(b, func(f field) (err error) {
		switch f.Num {
		case 1:
			r.Version = f.Bytes
		case 2:
			r.Body, err = at(f.Bytes, 2) // the value of the Any
		case 3:
			r.Name = f.Bytes
		}
		return err
	})
	return r, err
}
