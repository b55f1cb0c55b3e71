package hds

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Specifier is what a checker is told to do: clusters in the order of their names, endpoints in order, so
// that equal duties are equal specifiers. Only [Compose] makes one that may go to a wire.
type Specifier struct {
	Clusters []Cluster
	// Interval is how often the checker reports.
	Interval time.Duration
}

// Cluster is endpoints of one set that are probed alike. It has one probe: two would race on a host's state.
type Cluster struct {
	// Name is hds/<EDS name>/<hash of the probe>.
	Name       string
	Set        string
	Probe      Probe
	Localities []Locality
}

// Locality is the endpoints of a cluster in one place. It is never empty, which would end Envoy.
type Locality struct {
	Region, Zone string
	Endpoints    []Address
}

// Address is where an endpoint is.
type Address struct {
	IP   string
	Port uint32
}

// Refusal says which endpoint no checker is given, and why.
type Refusal struct {
	Key
	Service string
	Reason  string
}

// Capability is what a checker can do.
type Capability struct {
	HTTP, TCP, GRPC, Redis, TLS bool
}

// MaxDuties is how many endpoints one checker has at most. Envoy probes in its main thread.
const MaxDuties = 2000

// Bounds of the interval of reports.
const (
	minReportInterval = 5 * time.Millisecond
	maxReportInterval = time.Minute
)

// ReportInterval returns the interval within what a checker can be told. An Envoy that is told 0 never
// reports again.
func ReportInterval(d time.Duration) time.Duration {
	return min(max(d, minReportInterval), maxReportInterval)
}

// Compose makes a checker's specifier of its duties, and says what it leaves out. Whatever it is given, an
// Envoy takes what it returns and goes on running.
func Compose(can Capability, interval time.Duration, duties []Duty) (Specifier, []Refusal) {
	kept, refused := sift(can, duties)
	hashes := hashed(kept)
	slices.SortStableFunc(kept, func(a, b Duty) int {
		return cmp.Or(cmp.Compare(a.Set, b.Set), cmp.Compare(hashes[a.Probe], hashes[b.Probe]),
			cmp.Compare(a.Region, b.Region), cmp.Compare(a.Zone, b.Zone), a.compare(b.Key))
	})
	kept, refused = onceEach(kept, refused)
	spec := Specifier{Interval: ReportInterval(interval)}
	for _, d := range kept {
		spec.add(d, hashes[d.Probe])
	}
	return spec, refused
}

// sift returns the duties a checker can have.
func sift(can Capability, duties []Duty) ([]Duty, []Refusal) {
	var kept []Duty
	var refused []Refusal
	for _, d := range duties {
		reason := d.Problem()
		if reason == "" && !can.Can(d.Probe) {
			reason = fmt.Sprintf("the checker has no %s probes", d.Probe.words())
		}
		if reason != "" {
			refused = append(refused, Refusal{d.Key, d.Service, reason})
			continue
		}
		kept = append(kept, d.Canonical())
	}
	return kept, refused
}

// hashed returns the hash of each probe, of which there are far fewer than duties.
func hashed(duties []Duty) map[Probe]string {
	hashes := map[Probe]string{}
	for _, d := range duties {
		if _, ok := hashes[d.Probe]; !ok {
			hashes[d.Probe] = d.Probe.Hash()
		}
	}
	return hashes
}

// onceEach leaves one duty for each endpoint, which could not have two verdicts, and at most [MaxDuties].
func onceEach(duties []Duty, refused []Refusal) ([]Duty, []Refusal) {
	seen := make(map[Key]bool, len(duties))
	kept := duties[:0]
	for _, d := range duties {
		switch {
		case seen[d.Key]:
			refused = append(refused, Refusal{d.Key, d.Service, "the endpoint is there twice"})
		case len(kept) == MaxDuties:
			refused = append(refused, Refusal{d.Key, d.Service, fmt.Sprintf("the checker has %d endpoints, and no room for more", MaxDuties)})
		default:
			seen[d.Key] = true
			kept = append(kept, d)
		}
	}
	return kept, refused
}

// add appends a duty that comes after all others in order, with the hash of its probe.
func (s *Specifier) add(d Duty, hash string) {
	if n := len(s.Clusters); n == 0 || s.Clusters[n-1].Set != d.Set || s.Clusters[n-1].Probe != d.Probe {
		s.Clusters = append(s.Clusters, Cluster{Name: "hds/" + d.Set + "/" + hash, Set: d.Set, Probe: d.Probe})
	}
	c := &s.Clusters[len(s.Clusters)-1]
	if n := len(c.Localities); n == 0 || c.Localities[n-1].Region != d.Region || c.Localities[n-1].Zone != d.Zone {
		c.Localities = append(c.Localities, Locality{Region: d.Region, Zone: d.Zone})
	}
	l := &c.Localities[len(c.Localities)-1]
	l.Endpoints = append(l.Endpoints, Address{d.Address, d.Port})
}

// Len is the number of endpoints.
func (s Specifier) Len() int {
	n := 0
	for _, c := range s.Clusters {
		for _, l := range c.Localities {
			n += len(l.Endpoints)
		}
	}
	return n
}
