package view

import (
	"fmt"
	"strconv"
	"strings"

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
		t.Add(term.Text(strconv.Itoa(g.Index)), term.Text(shareBar(g.Done, total, size)), term.Text(words.Thousands(g.Done)),
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
