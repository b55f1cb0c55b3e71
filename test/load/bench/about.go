package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// about is the machine and the programs.
type about struct {
	cpu, memory, kernel string
	processors          int
	consul, catenary    string
}

// describe looks at the machine, and asks the programs for their versions.
func describe(ctx context.Context, c config) (about, error) {
	a := about{cpu: field("/proc/cpuinfo", "model name"), memory: memory(), processors: runtime.NumCPU()}
	// What follows the number is whose build of the kernel it is.
	a.kernel, _, _ = strings.Cut(strings.TrimSpace(read("/proc/sys/kernel/osrelease")), "-")
	for _, p := range []struct {
		into    *string
		program string
	}{{&a.consul, c.consul}, {&a.catenary, c.catenary}} {
		ctx, cancel := context.WithTimeout(ctx, startTimeout)
		out, err := command(ctx, p.program, "version").Output()
		cancel()
		if err != nil {
			return about{}, fmt.Errorf("ask %s for its version: %w", p.program, err)
		}
		*p.into, _, _ = strings.Cut(strings.TrimSpace(string(out)), "\n")
	}
	return a, nil
}

func read(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(raw)
}

// field is the value of the first line of a file that begins with a name and has a colon.
func field(path, name string) string {
	for line := range strings.Lines(read(path)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func memory() string {
	kib, err := strconv.Atoi(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB"))
	if err != nil {
		return "unknown"
	}
	const kibInGiB = 1 << 20
	return fmt.Sprintf("%.1f GiB", float64(kib)/kibInGiB)
}

func (a about) text(begin time.Time) string {
	const minute = "2006-01-02 15:04 UTC"
	return fmt.Sprintf("%s, on %d processors (%s), %s of memory, Linux %s. %s; %s; %s.",
		begin.UTC().Format(minute), a.processors, a.cpu, a.memory, a.kernel, a.consul, a.catenary, runtime.Version())
}
