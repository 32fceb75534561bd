package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/batch"
)

const (
	drawEvery = 200 * time.Millisecond // on a terminal
	sayEvery  = 5 * time.Second        // elsewhere
	mostBars  = 16                     // GPUs with a bar of their own

	usualHeight = 24 // of a terminal that does not say
)

// runScreen shows how a batch goes on Err: on a terminal a block that is drawn
// over and over, with whatever is said above it; elsewhere a line now and then.
type runScreen struct {
	*app

	mu    sync.Mutex // guards what follows, and everything that is written
	block []string   // as it was drawn last
}

// follow shows where the run stands until ctx ends.
func (s *runScreen) follow(ctx context.Context, run *batch.Run) {
	every := sayEvery
	if _, ok := s.errTerminal(); ok {
		every = drawEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			s.draw(nil)
			return
		case <-tick.C:
		}
		p := run.Progress()
		if width, ok := s.errTerminal(); ok {
			s.draw(runBlock(p, width-1, s.height()-1, painter(s.Getenv("NO_COLOR") == "")))
		} else {
			s.say("%s", runLine(p))
		}
	}
}

// height is how many lines the terminal has.
func (s *runScreen) height() int {
	if f, ok := s.Err.(*os.File); ok {
		if _, height, err := term.GetSize(int(f.Fd())); err == nil && height > 0 {
			return height
		}
	}
	return usualHeight
}

// notify tells what people want to know at once.
func (s *runScreen) notify(e batch.Event) {
	switch e.Code {
	case batch.EventStarted, batch.EventReady, batch.EventCommitted:
		return
	}
	text := clean(strings.ReplaceAll(e.Text, "\n", " "))
	if e.Worker != "" {
		text = fmt.Sprintf("%s on GPU %d: %s", e.Worker, e.GPU.Index, text)
	}
	s.say("%s", text)
}

func (s *runScreen) say(format string, args ...any) {
	_, _ = s.Write([]byte("berth: " + fmt.Sprintf(format, args...) + "\n"))
}

// Write writes whole lines above the block.
func (s *runScreen) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := io.WriteString(s.Err, s.wipe()+string(text)+s.redraw())
	return len(text), err
}

// draw puts a block in the place of the last one; nil takes it away.
func (s *runScreen) draw(block []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.wipe()
	s.block = block
	_, _ = io.WriteString(s.Err, text+s.redraw()) // whoever looked may be gone; the run goes on
}

// wipe moves to where the block begins, and clears from there.
func (s *runScreen) wipe() string {
	if len(s.block) == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA\r\x1b[J", len(s.block))
}

func (s *runScreen) redraw() string {
	var b strings.Builder
	for _, line := range s.block {
		b.WriteString(line + "\n")
	}
	return b.String()
}

// runBlock is a bar for each GPU, which is its share of all records, and one
// for the whole. What is higher than the screen could not be written over.
func runBlock(p batch.Progress, width, height int, paint painter) []string {
	const around = 3 // the title, the sum and the last line
	size := min(max(width-52, 8), 40)
	t := table{columns: []column{
		{title: "GPU"}, {title: "DONE", least: 8}, {title: "RECORDS", right: true}, {title: "RECORDS/S", right: true},
		{title: "WORKERS", right: true}, {title: "BATCH", right: true}, {title: "", least: 1},
	}}
	total := p.Total.Or(0)
	for _, g := range p.GPUs[:max(min(len(p.GPUs), mostBars, height-around), 0)] {
		note := cell{}
		switch {
		case g.GivenUp:
			note = cell{"given up", red}
		case g.Speed < 1:
			note = cell{fmt.Sprintf("×%.1f", g.Speed), yellow}
		}
		t.add(cell{text: strconv.Itoa(g.Index)}, cell{text: shareBar(g.Done, total, size)}, cell{text: thousands(g.Done)},
			cell{text: rateText(g.Rate)}, cell{text: fmt.Sprintf("%d/%d", g.Ready, g.Workers)}, cell{text: strconv.Itoa(g.Batch)}, note)
	}
	ready := 0
	for _, g := range p.GPUs {
		ready += g.Ready
	}
	t.add(cell{"all", bold}, cell{text: shareBar(p.Done, total, size)}, cell{text: thousands(p.Done)},
		cell{text: rateText(p.Rate)}, cell{text: fmt.Sprintf("%d/%d", ready, p.Workers)}, cell{}, cell{})
	var lines []string
	if _, fits := t.widths(width); fits && height >= around { // a line that runs over would be in the way of the next block
		lines = t.lines(width, paint)
	}
	foot := cut(runLine(p), width)
	if p.Failed > 0 {
		foot = paint.paint(red, foot)
	}
	return append(lines, foot)
}

func shareBar(done, total int64, size int) string {
	if total <= 0 {
		return strings.Repeat("░", size)
	}
	return bar(gpu.Some(gpu.Percent(100*float64(done)/float64(total))), size)
}

// runLine is where a run stands in one line.
func runLine(p batch.Progress) string {
	if p.Stage == batch.StageFinishing {
		return "all records are done; the output is being finished"
	}
	parts := []string{counted(p.Done, "record")}
	if total, known := p.Total.Get(); known && total > 0 {
		about := "of about "
		if p.Exact {
			about = "of "
		}
		parts[0] = fmt.Sprintf("%s %s%s (%d %%)", thousands(p.Done), about, counted(total, "record"), min(100*p.Done/total, 100))
	}
	if rate, known := p.Rate.Get(); known {
		parts = append(parts, rateText(gpu.Some(rate))+" records/s")
	}
	if left, known := p.Left.Get(); known {
		parts = append(parts, span(time.Duration(left*float64(time.Second)))+" left")
	}
	if p.Failed > 0 {
		parts = append(parts, thousands(p.Failed)+" failed")
	}
	if p.Workers == 0 && p.Stage == batch.StageRunning {
		parts = append(parts, "no worker")
	}
	return strings.Join(parts, ", ")
}

// thousands writes a large number so that it can be read.
func thousands(n int64) string {
	digits := strconv.FormatInt(max(n, 0), 10)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = string(slices.Insert([]byte(digits), at, ','))
	}
	return digits
}

// counted is a large number with its noun.
func counted(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(n) + " " + noun + "s"
}

func rateText(rate gpu.Opt[float64]) string {
	r, known := rate.Get()
	switch {
	case !known:
		return "-"
	case r < 10:
		return fmt.Sprintf("%.1f", r)
	}
	return thousands(int64(r))
}
