package view

import (
	"fmt"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

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
		t.Add(term.Text(strconv.Itoa(g.Index)), term.Text(term.Clean(g.Name)), term.Text(words.Thousands(g.Done)), failed,
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
