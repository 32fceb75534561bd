package main

import (
	"slices"
	"time"
)

// stopwatch repeats calls and measures them.
type stopwatch struct {
	most  int           // calls
	limit time.Duration // for all of them together
}

// cost is what one call costs, in microseconds.
type cost struct {
	Name   string  `json:"name"`
	Calls  int     `json:"calls"`
	Median float64 `json:"median_us"`
	P99    float64 `json:"p99_us"`
	Note   string  `json:"note,omitempty"` // why it did not work, from the last call
}

// time repeats call, after a first one that is not counted: it may have to
// wake the device up.
func (w stopwatch) time(name string, call func() (note string)) cost {
	c := cost{Name: name, Note: call()}
	var took []time.Duration
	for begin := time.Now(); len(took) < w.most && (len(took) == 0 || time.Since(begin) < w.limit); {
		start := time.Now()
		c.Note = call()
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	micros := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
	c.Calls = len(took)
	c.Median = micros(took[len(took)/2])
	c.P99 = micros(took[len(took)*99/100])
	return c
}
