package fleet

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// ticks is how many of the units of /proc/PID/stat are in a second: USER_HZ, which Linux fixed at 100.
const ticks = 100

// usage is what a process has taken: processor time since it began, and the memory it holds now.
type usage struct {
	cpu time.Duration
	rss float64 // KiB
}

// sample is the usage of all processes, in the order of [Config.Processes], and of this one.
type sample struct {
	at        time.Time
	processes []usage
	own       time.Duration
}

func (f *fleet) sample() (sample, error) {
	s := sample{at: time.Now()}
	for _, p := range f.Processes {
		u, err := processUsage(p.PID)
		if err != nil {
			return sample{}, fmt.Errorf("measure %s: %w", p.Name, err)
		}
		s.processes = append(s.processes, u)
	}
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return sample{}, fmt.Errorf("measure the generator: %w", err)
	}
	s.own = time.Duration(own.Utime.Nano() + own.Stime.Nano())
	return s, nil
}

func processUsage(pid int) (usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return usage{}, err
	}
	return parseStat(stat)
}

// parseStat reads the text of /proc/PID/stat.
func parseStat(stat []byte) (usage, error) {
	// The second field is the program's name in parentheses, in which anything may stand.
	const name, utime, stime, rss = 2, 14, 15, 24
	end := bytes.LastIndexByte(stat, ')')
	fields := bytes.Fields(stat[end+1:])
	if end < 0 || len(fields) <= rss-name-1 {
		return usage{}, fmt.Errorf("not a /proc/PID/stat: %q", stat)
	}
	var values [3]int64
	for i, field := range []int{utime, stime, rss} {
		v, err := strconv.ParseInt(string(fields[field-name-1]), 10, 64)
		if err != nil {
			return usage{}, fmt.Errorf("field %d of /proc/PID/stat: %w", field, err)
		}
		values[i] = v
	}
	return usage{
		cpu: time.Duration(values[0]+values[1]) * time.Second / ticks,
		rss: float64(values[2]) * float64(os.Getpagesize()) / 1024,
	}, nil
}
