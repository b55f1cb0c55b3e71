package sanitizer

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/catenary-mesh/catenary/hds"
)

func oneOf[T any](r *rand.Rand, choices ...T) T { return choices[r.IntN(len(choices))] }

// catalog is duties as a hostile or careless catalog could have them. What is valid is on this machine.
func catalog(r *rand.Rand) []hds.Duty {
	var duties []hds.Duty
	set := fmt.Sprintf("%s-%d", oneOf(r, "api", "web", "dots.and.more", "日本", "a/b", "sp ace"), r.IntN(3))
	probe := anyProbe(r)
	for range r.IntN(24) {
		set := set
		if r.IntN(6) == 0 {
			set = oneOf(r, "api", "", "x\xff", "new\nline", strings.Repeat("n", 600), fmt.Sprintf("s%d", r.IntN(100)))
		}
		if r.IntN(3) == 0 {
			probe = anyProbe(r)
		}
		duties = append(duties, hds.Duty{
			Endpoint: hds.Endpoint{
				Key:     hds.Key{Set: set, Address: address(r), Port: port(r)},
				Service: set, Region: oneOf(r, "", "eu"), Zone: oneOf(r, "", "a", "b", strings.Repeat("z", 300)),
			},
			Probe: probe,
		})
		if r.IntN(20) == 0 {
			duties[len(duties)-1].Region = "r\xfe"
		}
		if r.IntN(8) == 0 {
			duties = append(duties, duties[len(duties)-1])
		}
	}
	return duties
}

func address(r *rand.Rand) string {
	good := fmt.Sprintf("127.%d.%d.%d", 1+r.IntN(250), r.IntN(256), 1+r.IntN(250))
	if r.IntN(5) > 0 {
		return good
	}
	return oneOf(r, "::1", "0:0:0:0:0:0:0:1", "::ffff:"+good,
		"localhost", "", " ", good+" ", "0.0.0.0", "::", "224.0.0.1", "255.255.255.255", "ff02::1", "fe80::1%lo", "1.2.3", "0177.0.0.1",
		"127.0.0.1:80", "[::1]", "/tmp/socket", "unix:///tmp/x", "@abstract", "exa mple.com", "\x00", "日本.example", strings.Repeat("1", 5000))
}

func port(r *rand.Rand) uint32 {
	if r.IntN(10) == 0 {
		return oneOf(r, uint32(0), 65535, 65536, 1<<32-1)
	}
	return uint32(1 + r.IntN(65535))
}

func anyProbe(r *rand.Rand) hds.Probe {
	p := hds.DefaultProbe(oneOf(r, hds.HTTP, hds.HTTP, hds.TCP, hds.GRPC, hds.Redis))
	if r.IntN(20) == 0 {
		p.Protocol = oneOf(r, hds.Protocol(""), "thrift", "HTTP")
	}
	absurd := func(set func()) {
		if r.IntN(12) == 0 {
			set()
		}
	}
	absurd(func() {
		p.Path = oneOf(r, "", "/", "/health?a=b", "no-slash", "/sp ace", "/\r\nX: y", "/#f", "/%zz", "/ü", "/"+strings.Repeat("x", 70000), "a.b.Service")
	})
	absurd(func() {
		p.Host = oneOf(r, "example.com", "example.com:8080", "[::1]:1", "a b", "x\r\ny: z", "-", ":", "[", strings.Repeat("h", 300), strings.Repeat("h", 255), "ü.example")
	})
	absurd(func() { p.Port = oneOf(r, uint32(1), 65535, 65536, 1<<32-1) })
	absurd(func() { p.Interval = anyDuration(r) })
	absurd(func() { p.Timeout = anyDuration(r) })
	absurd(func() { p.Healthy = oneOf(r, uint32(0), 1, 100, 101, 1<<32-1) })
	absurd(func() { p.Unhealthy = oneOf(r, uint32(0), 1, 100, 101, 1<<32-1) })
	absurd(func() {
		p.Statuses = oneOf(r, "200", "200-299", "200-299,404", "100-599", "599", "299-200", "0-1000", "200,200", "200-", "-", "600", "99", "x")
	})
	absurd(func() { p.TLS = true })
	return p
}

func anyDuration(r *rand.Rand) time.Duration {
	return oneOf(r, 0, -1, 1, time.Nanosecond, 100*time.Millisecond, 123456789*time.Nanosecond, time.Second, time.Hour, time.Minute,
		100*time.Millisecond+1, time.Minute-1, 2*time.Minute,
		24*365*time.Hour, 1<<63-1, -1<<63)
}
