package main

import (
	"time"
)

// patience is how long Eventually waits.
const patience = 3 * time.Minute

// A Condition returns nil when it is true, and else what is missing.
type Condition func() error

// Within waits until a condition is true, prints how long that took and what was
// expected, and fails after ten times that, or half a minute where that is longer.
func (h *H) Within(expected time.Duration, what string, c Condition) time.Duration {
	took := h.wait(max(10*expected, 30*time.Second), what, c)
	h.Step("%s: after %.1f s (expected: %.0f s)", what, took.Seconds(), expected.Seconds())
	late := ""
	if took > expected {
		late = "!"
	}
	h.Note("%s %.1fs%s", what, took.Seconds(), late)
	return took
}

// Eventually waits until a condition is true.
func (h *H) Eventually(what string, c Condition) time.Duration {
	took := h.wait(patience, what, c)
	h.Step("%s: after %.1f s", what, took.Seconds())
	return took
}

func (h *H) wait(limit time.Duration, what string, c Condition) time.Duration {
	begin := time.Now()
	for {
		err := c()
		if err == nil {
			return time.Since(begin)
		}
		if time.Since(begin) > limit {
			h.Fail("%s: not after %v: %v", what, limit, err)
		}
		select {
		case <-h.ctx.Done():
			h.Must(h.ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Holds looks at a condition ten times a second and fails if it is not true during a time.
func (h *H) Holds(during time.Duration, what string, c Condition) {
	begin := time.Now()
	for time.Since(begin) < during {
		if err := c(); err != nil {
			h.Fail("%s: no longer after %.1f s: %v", what, time.Since(begin).Seconds(), err)
		}
		select {
		case <-h.ctx.Done():
			h.Must(h.ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
	h.Step("%s: for %.0f s", what, during.Seconds())
}

// All is true when all conditions are.
func All(all ...Condition) Condition {
	return func() error {
		for _, c := range all {
			if err := c(); err != nil {
				return err
			}
		}
		return nil
	}
}
