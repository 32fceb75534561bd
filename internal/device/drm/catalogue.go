package drm

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/gpu"
)

// Catalogue says what messages of a driver mean.
type Catalogue struct {
	Entries []Entry // the first match counts
	Not     string  // a message with this text is about no fault; empty excludes none
	PID     string  // pattern whose first group is the process that a message names

	// Anywhere means that the name of the driver may stand anywhere in its messages.
	// Otherwise they begin with it.
	Anywhere bool
}

// Entry is a kind of message.
type Entry struct {
	Words []string // the message has all of them
	Fault gpu.Fault
}

// from reports whether a message comes from one of the drivers.
func (c *Catalogue) from(drivers []string, text string) bool {
	first, _, _ := strings.Cut(text, " ")
	return slices.ContainsFunc(drivers, func(driver string) bool {
		return first == driver || c.Anywhere && strings.Contains(text, driver)
	})
}

// Describe returns the fault that a message reports, and the process that it names, or 0.
// It reports false for a message that is about no fault.
func (c *Catalogue) Describe(text string) (f gpu.Fault, pid int, ok bool) {
	if c.Not != "" && strings.Contains(text, c.Not) {
		return f, 0, false
	}
	for _, e := range c.Entries {
		all := true
		for _, word := range e.Words {
			all = all && strings.Contains(text, word)
		}
		if all {
			return e.Fault, c.pidIn(text), true
		}
	}
	return f, 0, false
}

func (c *Catalogue) pidIn(text string) int {
	found := regexp.MustCompile(c.PID).FindStringSubmatch(text) // faults are rare
	if found == nil {
		return 0
	}
	pid, _ := strconv.Atoi(found[1])
	return pid
}
