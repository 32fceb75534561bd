package main

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// stopwatch repeats calls and measures them.
type stopwatch struct {
	most  int           // calls
	limit time.Duration // for all of them together
	cold  int           // calls with a pause before each, as the daemon does; 0: none
}

// pause is long enough for a device to become idle.
const pause = time.Second

// cost is the cost of one call, in microseconds.
type cost struct {
	Name    string  `json:"name"`
	Calls   int     `json:"calls"`
	Median  float64 `json:"median_us"`
	P99     float64 `json:"p99_us"`
	CPU     float64 `json:"cpu_us"`            // processor time per call, in this process and in the kernel
	Cold    float64 `json:"cold_us,omitempty"` // median with a pause before each call
	ColdCPU float64 `json:"cold_cpu_us,omitempty"`
	Note    string  `json:"note,omitempty"` // why the last call failed
}

// time repeats call and returns its cost. The first call does not count: it may
// have to wake the device.
func (w stopwatch) time(name string, call func() (note string)) cost {
	c := cost{Name: name, Note: call()}
	var took []time.Duration
	before := processorTime()
	for begin := time.Now(); len(took) < w.most && (len(took) == 0 || time.Since(begin) < w.limit); {
		start := time.Now()
		c.Note = call()
		took = append(took, time.Since(start))
	}
	c.CPU = micros(processorTime()-before) / float64(len(took))
	c.Cold, c.ColdCPU = w.paced(call)
	slices.Sort(took)
	c.Calls = len(took)
	c.Median = micros(took[len(took)/2])
	c.P99 = micros(took[len(took)*99/100])
	return c
}

// paced measures calls with a pause before each, as the daemon does.
func (w stopwatch) paced(call func() string) (median, cpu float64) {
	if w.cold == 0 {
		return 0, 0
	}
	var took []time.Duration
	var spent time.Duration
	for range w.cold {
		time.Sleep(pause)
		before, start := processorTime(), time.Now()
		call()
		took = append(took, time.Since(start))
		spent += processorTime() - before
	}
	slices.Sort(took)
	return micros(took[len(took)/2]), micros(spent) / float64(w.cold)
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// processorTime returns the processor time of this process, in user mode and in
// the kernel.
func processorTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
