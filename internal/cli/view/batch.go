package view

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// mostBars limits the GPUs of a batch with their own bar.
const mostBars = 16

// Batch draws a bar for the share of each GPU in all records, and a bar for the whole.
// It takes at most height lines and width columns.
func Batch(b api.Batch, width, height int, paint term.Painter) []string {
	const around = 3 // the title, the sum and the last line
	size := min(max(width-52, 8), 40)
	t := term.Table{Columns: []term.Column{
		{Title: "GPU"}, {Title: "DONE", Least: 8}, {Title: "RECORDS", Right: true}, {Title: "RECORDS/S", Right: true},
		{Title: "WORKERS", Right: true}, {Title: "BATCH", Right: true}, {Title: "", Least: 1},
	}}
	total := b.Total.Or(0)
	for _, g := range b.GPUs[:max(min(len(b.GPUs), mostBars, height-around), 0)] {
		note := term.Cell{}
		switch {
		case g.GivenUp:
			note = term.Painted("given up", term.Red)
		case g.Speed < 1:
			note = term.Painted(fmt.Sprintf("×%.1f", g.Speed), term.Yellow)
		}
		t.Add(gpuOf(g), term.Text(shareBar(g.Done, total, size)), term.Text(words.Thousands(g.Done)),
			term.Text(rate(g.Rate)), term.Text(fmt.Sprintf("%d/%d", g.Ready, g.Workers)), term.Text(strconv.Itoa(g.Batch)), note)
	}
	ready := 0
	for _, g := range b.GPUs {
		ready += g.Ready
	}
	t.Add(term.Painted("all", term.Bold), term.Text(shareBar(b.Done, total, size)), term.Text(words.Thousands(b.Done)),
		term.Text(rate(b.Rate)), term.Text(fmt.Sprintf("%d/%d", ready, b.Workers)))
	var lines []string
	if t.Fits(width) && height >= around { // a line that wraps would disturb the next block
		lines = t.Lines(width, paint)
	}
	foot := term.Cut(BatchLine(b), width)
	if b.Failed > 0 {
		foot = paint.Paint(term.Red, foot)
	}
	return append(lines, foot)
}

// gpuOf names a GPU in a table: by its index, after the machine if it is another one.
func gpuOf(g api.BatchGPU) term.Cell {
	if g.Host == "" {
		return term.Text(strconv.Itoa(g.Index))
	}
	return term.Text(term.Clean(g.Host) + " " + strconv.Itoa(g.Index))
}

func shareBar(done, total int64, size int) string {
	if total <= 0 {
		return strings.Repeat("░", size)
	}
	return term.Bar(100*float64(done)/float64(total), size)
}

// BatchLine returns the progress of a batch in one line.
func BatchLine(b api.Batch) string {
	if b.Stage == "finishing" {
		return "all records are done; the output is being finished"
	}
	parts := []string{words.CountThousands(b.Done, "record")}
	if total, known := b.Total.Get(); known && total > 0 {
		about := "of about "
		if b.Exact {
			about = "of "
		}
		parts[0] = fmt.Sprintf("%s %s%s (%d %%)", words.Thousands(b.Done), about, words.CountThousands(total, "record"), min(100*b.Done/total, 100))
	}
	if b.Rate.Known() {
		parts = append(parts, rate(b.Rate)+" records/s")
	}
	if left, known := b.Left.Get(); known {
		parts = append(parts, words.Age(seconds(left))+" left")
	}
	if b.Failed > 0 {
		parts = append(parts, words.Thousands(b.Failed)+" failed")
	}
	if b.Workers == 0 && b.Stage == "running" {
		parts = append(parts, "no worker")
	}
	return strings.Join(parts, ", ")
}

// rate writes the records per second, or a dash if the rate is not known.
func rate(perSecond gpu.Opt[float64]) string {
	r, known := perSecond.Get()
	switch {
	case !known:
		return "-"
	case r < 10:
		return fmt.Sprintf("%.1f", r)
	}
	return words.Thousands(int64(r))
}

// BatchSummary shows the work of each GPU for a batch that has ended, and sums up the
// whole. The duration took is that of the last run, without those before it.
func BatchSummary(b api.Batch, took time.Duration, to term.Screen) []string {
	t := term.Table{Columns: []term.Column{
		{Title: "GPU"}, {Title: "NAME", Least: 8}, {Title: "RECORDS", Right: true}, {Title: "FAILED", Right: true},
		{Title: "RESTARTS", Right: true}, {Title: "RECORDS/S", Right: true}, {Title: "BUSY", Right: true},
	}}
	for _, g := range b.GPUs {
		failed := term.Text(words.Thousands(g.Failed))
		if g.Failed > 0 {
			failed.Colour = term.Red
		}
		t.Add(gpuOf(g), term.Text(term.Clean(g.Name)), term.Text(words.Thousands(g.Done)), failed,
			term.Text(words.Thousands(g.Restarts)), term.Text(rate(g.Rate)), term.Text(words.Age(seconds(g.Busy))))
	}
	var lines []string
	if len(t.Rows) > 0 {
		lines = append(t.Lines(to.Width, to.Painter), "")
	}
	return append(lines, term.Wrap(batchSentence(b, took), max(to.Width, 20))...)
}

// batchSentence sums up a batch that has ended.
func batchSentence(b api.Batch, took time.Duration) string {
	now, perSecond := b.Done-b.Before, 0.0
	if took > 0 {
		perSecond = float64(now) / took.Seconds()
	}
	text := fmt.Sprintf("%s in %s", words.CountThousands(now, "record"), Took(took))
	if b.Before > 0 {
		text += fmt.Sprintf(", and %s before that", words.Thousands(b.Before))
	}
	text += fmt.Sprintf(": %s failed", words.Thousands(b.Failed))
	if b.Marked > 0 {
		text += fmt.Sprintf(" (%s broke workers)", words.Thousands(b.Marked))
	}
	text += fmt.Sprintf(", %s given out again, %s; %s records/s",
		words.Thousands(b.Retries), words.CountThousands(b.Restarts, "restart"), rate(gpu.Some(perSecond)))
	if used, known := b.Energy.Get(); known {
		text += "; " + used.String()
		if now > 0 {
			text += fmt.Sprintf(", %s J a record", perRecord(float64(used)/float64(now)))
		}
	}
	return text
}

// perRecord writes joules with as many digits as are significant.
func perRecord(joules float64) string {
	if joules >= 100 {
		return strconv.FormatFloat(joules, 'f', 0, 64)
	}
	return strconv.FormatFloat(joules, 'g', 2, 64)
}

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
