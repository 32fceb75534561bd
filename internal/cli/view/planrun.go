package view

import (
	"fmt"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Runs counts the runs of a plan, and describes their progress.
type Runs struct {
	Total   int
	Running int
	Done    int // ended successfully
	Failed  int
	Stopped int // before the end, or before the beginning
}

// Begin says how many runs there are, and how many run at a time.
func (n Runs) Begin(plan api.Plan) string {
	text := term.Clean(plan.File) + ": " + words.Count(n.Total, "run")
	if plan.SideBySide > 0 {
		text += fmt.Sprintf(", %d side by side on GPUs, %s", plan.SideBySide, words.Count(plan.Waves, "wave"))
	}
	return text
}

// Line draws a bar of the ended runs, and counts the others. The duration age is the
// time since the first one began.
func (n Runs) Line(age time.Duration) string {
	ended := n.Done + n.Failed + n.Stopped
	text := fmt.Sprintf("%s %d of %d done, %d running, %s", term.Bar(100*float64(ended)/float64(n.Total), 20), n.Done, n.Total, n.Running, words.Age(age))
	if n.Failed > 0 {
		text += fmt.Sprintf(", %d failed", n.Failed)
	}
	return text
}

// End sums up the runs, which together took the duration took.
func (n Runs) End(took time.Duration, runs []api.RunningRun) string {
	planned, elsewhere := 0, 0
	for _, r := range runs {
		switch r.Placement {
		case api.PlacedAsPlanned:
			planned++
		case api.PlacedElsewhere:
			elsewhere++
		}
	}
	text := fmt.Sprintf("%s in %s: %d done, %d failed", words.Count(n.Total, "run"), Took(took), n.Done, n.Failed)
	if planned+elsewhere > 0 {
		text += fmt.Sprintf("; %d on the GPU of the plan, %d on another", planned, elsewhere)
	}
	if n.Stopped > 0 {
		text += fmt.Sprintf("; %d stopped, or not started", n.Stopped)
	}
	return text
}

// RunStarts says where a run starts, and why it does not start where the plan put it.
func (x GPUs) RunStarts(r api.RunningRun) string {
	name := term.Clean(r.Name)
	switch r.Placement {
	case api.PlacedAsPlanned:
		return name + " starts on " + x.Name(r.Lease.Parts[0].GPU)
	case api.PlacedElsewhere:
		return name + " starts on " + x.Name(r.Lease.Parts[0].GPU) + ", and not as planned: " + term.Clean(r.Reason)
	}
	return name + " starts, without a GPU"
}

// RunEnds says how a run ended and how long it took, or why it did not start.
func RunEnds(name string, started bool, took time.Duration, err error) string {
	name = term.Clean(name)
	switch {
	case err == nil:
		return name + " is done after " + Took(took)
	case !started:
		return name + " did not start: " + term.CleanLines(err.Error())
	}
	return name + " failed after " + Took(took) + ": " + term.Clean(err.Error())
}
