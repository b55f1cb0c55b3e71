package main

import (
	"strings"
	"testing"
	"time"

	"github.com/catenary-mesh/catenary/test/load/fleet"
)

// result is a run in which a flip takes so long, and so much of a server's processor.
func result(last, consul, catenary float64) *fleet.Result {
	r := &fleet.Result{
		Streams: 10, Full: 10, Flips: fleet.FlipResult{Last: fleet.Dist{P50: last}},
		Processes: map[string]fleet.ProcessResult{"consul": {FlipCPU: consul, Before: 1024, Settled: 2048}},
		Endpoints: map[string][]string{"a": {"svc-0 10.0.0.1:1 healthy"}},
	}
	if catenary > 0 {
		r.Processes["catenary"] = fleet.ProcessResult{FlipCPU: catenary, Before: 1024, Settled: 1034}
	}
	return r
}

func rounds(c config, all ...map[string]*fleet.Result) (list []round) {
	for _, results := range all {
		list = append(list, round{load: "0.1 0.2 0.3", results: results, void: c.compare(results)})
	}
	return list
}

func TestASectionHasMediansAndSaysWhereConsulWins(t *testing.T) {
	c := config{servers: servers()[:usualServers]}
	r := report{scenario: scenarios()[0], servers: servers()[:usualServers], begin: time.Unix(0, 0), rounds: rounds(c,
		map[string]*fleet.Result{"consul": result(1200, 900, 0), "uncapped": result(600, 700, 0), "catenary": result(20, 2, 5)},
		map[string]*fleet.Result{"consul": result(1300, 1000, 0), "uncapped": result(500, 700, 0), "catenary": result(10, 2, 6)},
		map[string]*fleet.Result{"consul": result(1201, 800, 0), "uncapped": result(610, 700, 0), "catenary": result(15, 2, 7)},
	)}
	got := r.section()
	for _, want := range []string{
		"3 of 3 rounds count", "0.1 0.2 0.3; 0.1 0.2 0.3; 0.1 0.2 0.3",
		"| figure | Consul | Consul, cap lifted | catenary | ÷ catenary |\n|---|---|---|---|---|\n",
		"| flip to last stream, p50, ms | 1201 (1200 to 1300) | 600 (500 to 610) | 15.0 (10.0 to 20.0) | 80.1×; 40.0× |",
		"| CPU per flip, the xDS server, ms | 900 (800 to 1000) | 700 | 6.00 (5.00 to 7.00) | 150×; 117× |",
		"| CPU per flip, with the Consul behind it, ms | 900 (800 to 1000) | 700 | 8.00 (7.00 to 9.00) | 112×; 87.5× |",
		"| memory per stream, the xDS server, KiB | 102 | 102 | 1.00 | 102×; 102× |",
		"| memory per stream, both processes, KiB | 102 | 102 | 103 | 0.99×; 0.99× |",
		"**Where Consul wins here.** In these figures:\n\n- memory per stream, both processes, KiB; Consul 102; Consul, cap lifted 102; catenary 103\n" +
			"- memory before the first stream, both processes, MiB; Consul 1.00; Consul, cap lifted 1.00; catenary 2.00\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the section lacks %q:\n%s", want, got)
		}
	}
}

func TestARoundIsVoidWhenServersDifferOrFail(t *testing.T) {
	c := config{servers: []server{servers()[0], servers()[2]}}
	differs := result(1, 1, 1)
	differs.Endpoints = map[string][]string{"a": {"svc-0 10.0.0.1:1 unhealthy"}}
	missed := result(1, 1, 1)
	missed.Flips.Missed = 3
	for want, bad := range map[string]*fleet.Result{
		"Consul and catenary give streams different endpoints: a: 1 and 1 endpoints: only the first has svc-0 10.0.0.1:1 healthy": differs,
		"catenary configured 10 of 10 streams, which missed 3 flips":                                                              missed,
	} {
		r := report{scenario: scenarios()[0], servers: c.servers, rounds: rounds(c, map[string]*fleet.Result{"consul": result(1, 1, 0), "catenary": bad})}
		if got := r.section(); !strings.Contains(got, "Round 1 is **void**: "+want) || !strings.Contains(got, "No round counts") {
			t.Errorf("the section lacks %q:\n%s", want, got)
		}
	}
}

func TestANewSectionReplacesItsOwnAndKeepsTheOthers(t *testing.T) {
	doc := merged("", "100x200", "first\n")
	doc = merged(doc, "1000x10", "thousand\n")
	doc = merged(doc, "300x10", "three hundred\n")
	doc = merged(doc, "100x200", "second\n")
	want := head + "\n<!-- 300x10 -->\nthree hundred\n<!-- end of 300x10 -->\n" +
		"\n<!-- 100x200 -->\nsecond\n<!-- end of 100x200 -->\n" + "\n<!-- 1000x10 -->\nthousand\n<!-- end of 1000x10 -->\n"
	if doc != want {
		t.Errorf("the document is\n%s", doc)
	}
}

func TestTheCommandLineChoosesFromTheTables(t *testing.T) {
	c, err := parse([]string{"-scenario", "1000x10,300x10", "-servers", "catenary"})
	if err != nil || len(c.scenarios) != 2 || c.scenarios[0].name != "300x10" || len(c.servers) != 1 || !c.servers[0].catenary {
		t.Errorf("%+v %v", c, err)
	}
	if c, err := parse([]string{"-scenario", "all"}); err != nil || len(c.scenarios) != 3 || len(c.servers) != 3 || c.rounds != 5 || c.run.flips != 40 {
		t.Errorf("%+v %v", c, err)
	}
	if _, err := chooseScenarios("300x10,all"); err == nil || !strings.Contains(err.Error(), `"all" is none of 300x10, 100x200, 1000x10`) {
		t.Errorf("a scenario that is none: %v", err)
	}
	if got, err := chooseScenarios("50x10"); err != nil || len(got) != 1 || !got[0].other || got[0].size.Sidecars != 50 || got[0].size.Upstreams != 10 {
		t.Errorf("another size: %+v %v", got, err)
	}
	if _, err := chooseScenarios("50x1000"); err == nil || !strings.Contains(err.Error(), "1000 upstreams") {
		t.Errorf("a size that cannot be: %v", err)
	}
}

func TestNumbersKeepThreeDigits(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 0.123: "0.12", 9.9999: "10.0", 99.99: "100", 1.005: "1.00", 12.34: "12.3", 1234.5: "1234", -200: "-200"} {
		if got := number(x); got != want {
			t.Errorf("%v is %s, want %s", x, got, want)
		}
	}
}
