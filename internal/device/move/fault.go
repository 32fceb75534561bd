package move

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/gpu"
)

// Fault is a planned fault, for tests: before, during or after a step.
type Fault struct {
	Step Step  `json:"step"`
	When When  `json:"when"`
	What Wrong `json:"what"`
	Nth  int   `json:"-"` // only the Nth time that the step is taken; 0 means every time
}

// When says at which moment of a step a fault happens.
type When string

// The moments.
const (
	Before When = "before"
	During When = "during" // while the driver is at work
	After  When = "after"
)

// Wrong says what goes wrong.
type Wrong string

// What goes wrong.
const (
	KillHelper Wrong = "kill-helper" // the helper process is killed
	KillDaemon Wrong = "kill-daemon" // the daemon is killed
	Refuse     Wrong = "error"       // the step is refused; with After, it was taken all the same
	Hang       Wrong = "hang"        // there is never an answer
)

// FaultVariable is the environment variable that plans faults in a daemon, for
// tests.
const FaultVariable = "BERTH_PARK_FAULT"

// ParseFaults reads STEP:WHEN:WHAT or STEP:WHEN:WHAT:N, several of them separated by
// commas. Empty text has no faults.
func ParseFaults(text string) ([]Fault, error) {
	if text == "" {
		return nil, nil
	}
	var list []Fault
	for one := range strings.SplitSeq(text, ",") {
		fields := strings.Split(one, ":")
		if len(fields) < 3 || len(fields) > 4 {
			return nil, fmt.Errorf("%q is no fault: write STEP:WHEN:WHAT or STEP:WHEN:WHAT:N", gpu.Printable(one, 80))
		}
		f := Fault{Step: Step(fields[0]), When: When(fields[1]), What: Wrong(fields[2])}
		if len(fields) == 4 {
			n, err := strconv.Atoi(fields[3])
			if err != nil || n < 1 {
				return nil, fmt.Errorf("%q is no fault: N must be 1 or more", gpu.Printable(one, 80))
			}
			f.Nth = n
		}
		if err := f.check(); err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return list, nil
}

// check returns an error for a fault that cannot happen.
func (f Fault) check() error {
	for _, word := range []struct {
		text  string
		known []string
	}{
		{string(f.Step), []string{string(Ask), string(Lock), string(Checkpoint), string(Restore), string(Unlock)}},
		{string(f.When), []string{string(Before), string(During), string(After)}},
		{string(f.What), []string{string(KillHelper), string(KillDaemon), string(Refuse), string(Hang)}},
	} {
		if !slices.Contains(word.known, word.text) {
			return fmt.Errorf("%q is no part of a fault: write %s", gpu.Printable(word.text, 40), strings.Join(word.known, ", "))
		}
	}
	if f.When == During && f.What == Refuse {
		return fmt.Errorf("a fault %s:%s:%s cannot happen: a step is refused before or after it", f.Step, f.When, f.What)
	}
	return nil
}
