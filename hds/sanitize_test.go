package hds

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
)

// wellFormed holds a specifier to what Envoy's own rules say and to what has been seen to end it.
func wellFormed(t *testing.T, s Specifier) []byte {
	t.Helper()
	encoded, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := encoded.ValidateAll(); err != nil {
		t.Fatalf("Envoy would refuse it: %v", err)
	}
	names := map[string]bool{}
	for _, c := range encoded.GetClusterHealthChecks() {
		if names[c.GetClusterName()] || len(c.GetHealthChecks()) != 1 || len(c.GetLocalityEndpoints()) == 0 {
			t.Fatalf("cluster %q is there twice, or has not one probe, or no locality", c.GetClusterName())
		}
		names[c.GetClusterName()] = true
		check := c.GetHealthChecks()[0]
		if check.GetNoTrafficInterval().AsDuration() != check.GetInterval().AsDuration() || check.GetNoTrafficHealthyInterval() != nil {
			t.Fatal("without traffic it is probed at other times")
		}
		for _, r := range check.GetHttpHealthCheck().GetExpectedStatuses() {
			if r.GetStart() >= r.GetEnd() || r.GetStart() < 100 || r.GetEnd() > 600 {
				t.Fatalf("the statuses are %v", r)
			}
		}
		for _, l := range c.GetLocalityEndpoints() {
			if len(l.GetEndpoints()) == 0 {
				t.Fatalf("cluster %q has an empty locality", c.GetClusterName())
			}
			for _, e := range l.GetEndpoints() {
				if _, err := netip.ParseAddr(e.GetAddress().GetSocketAddress().GetAddress()); err != nil {
					t.Fatal(err)
				}
				if e.GetHealthCheckConfig().GetDisableActiveHealthCheck() || e.GetHealthCheckConfig().GetAddress() != nil {
					t.Fatalf("the endpoint %v is probed elsewhere, or not", e)
				}
			}
		}
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(encoded)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestWhatHarmsAnEnvoyIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Duty)
		reason string
	}{
		"a host name":         {func(d *Duty) { d.Address = "localhost" }, "is not an IP address"},
		"no address":          {func(d *Duty) { d.Address = "" }, "is not an IP address"},
		"a zoned address":     {func(d *Duty) { d.Address = "fe80::1%eth0" }, "has a zone"},
		"every address":       {func(d *Duty) { d.Address = "0.0.0.0" }, "not the address of one machine"},
		"a group":             {func(d *Duty) { d.Address = "224.0.0.1" }, "not the address of one machine"},
		"port 0":              {func(d *Duty) { d.Port = 0 }, "the port is 0"},
		"a large port":        {func(d *Duty) { d.Port = 65536 }, "the port is 65536"},
		"no set":              {func(d *Duty) { d.Set = "" }, "name of the endpoint set"},
		"broken text":         {func(d *Duty) { d.Zone = "\xff" }, "not UTF-8"},
		"an unknown checker":  {func(d *Duty) { d.Probe.Protocol = "thrift" }, "the protocol is"},
		"empty statuses":      {func(d *Duty) { d.Probe = DefaultProbe(HTTP); d.Probe.Statuses = "300-200" }, "is not a status"},
		"statuses in a mess":  {func(d *Duty) { d.Probe = DefaultProbe(HTTP); d.Probe.Statuses = "300,200" }, "not in order"},
		"no timeout":          {func(d *Duty) { d.Probe.Timeout = 0 }, "the timeout is 0s"},
		"no interval":         {func(d *Duty) { d.Probe.Interval = 0 }, "the interval is 0s"},
		"no threshold":        {func(d *Duty) { d.Probe.Healthy = 0 }, "a threshold is 0"},
		"a skill it has not":  {func(d *Duty) { d.Probe = DefaultProbe(Redis) }, "the checker has no redis probes"},
		"tls, which it lacks": {func(d *Duty) { d.Probe.TLS = true }, "the checker has no tcp with tls probes"},
	} {
		d := duty(1, "", "")
		c.change(&d)
		spec, refused := Compose(Capability{HTTP: true, TCP: true}, time.Second, []Duty{d, duty(2, "", "")})
		if len(refused) != 1 || !strings.Contains(refused[0].Reason, c.reason) || spec.Len() != 1 {
			t.Errorf("%s: refused %v, and %d go out", name, refused, spec.Len())
		}
		wellFormed(t, spec)
	}
}

func TestEqualDutiesAreEqualBytes(t *testing.T) {
	var duties []Duty
	for i := range 200 {
		d := duty(i, "", []string{"a", "b", ""}[i%3])
		d.Probe = DefaultProbe([]Protocol{HTTP, TCP, GRPC, Redis}[i%4])
		d.Probe.TLS = i%5 == 0
		duties = append(duties, d)
	}
	want, refused := Compose(all(), time.Second, duties)
	if len(refused) > 0 {
		t.Fatal(refused)
	}
	bytesOf := wellFormed(t, want)
	r := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		r.Shuffle(len(duties), func(i, j int) { duties[i], duties[j] = duties[j], duties[i] })
		got, _ := Compose(all(), time.Second, duties)
		if !bytes.Equal(wellFormed(t, got), bytesOf) {
			t.Fatal("in another order the same duties are other bytes")
		}
	}
}

func TestACheckerHasABoundedNumberOfEndpoints(t *testing.T) {
	var duties []Duty
	for i := range MaxDuties + 5 {
		duties = append(duties, duty(i, "", ""))
	}
	duties = append(duties, duties[0])
	spec, refused := Compose(all(), 0, duties)
	if spec.Len() != MaxDuties || len(refused) != 6 || spec.Interval <= 0 {
		t.Errorf("%d go out every %v, and %d are refused", spec.Len(), spec.Interval, len(refused))
	}
}

func TestNamesOfClusters(t *testing.T) {
	d := duty(1, "", "")
	spec, _ := Compose(all(), time.Second, []Duty{d})
	if got, want := spec.Clusters[0].Name, "hds/s0/"+d.Probe.Hash(); got != want {
		t.Errorf("the name is %q, and not %q", got, want)
	}
	other := d.Probe
	other.Timeout++
	if other.Hash() == d.Probe.Hash() {
		t.Error("another probe has the same hash")
	}
}
