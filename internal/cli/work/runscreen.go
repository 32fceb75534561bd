package work

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	xterm "golang.org/x/term"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/batch"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/programs"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/outlet"
	"github.com/berth-gpu/berth/internal/text/term"
)

const (
	drawEvery = 200 * time.Millisecond // on a terminal
	sayEvery  = 5 * time.Second        // elsewhere

	unreadGrace = 2 * time.Second // after a signal, for whoever reads Err

	usualHeight = 24 // of a terminal that does not report its height
)

// runScreen shows the progress of a batch on Err: on a terminal as a block that is
// redrawn, with messages above it; elsewhere as a line now and then.
type runScreen struct {
	*console.Console

	terminal *os.File // what Err was, if it is a file

	mu   sync.Mutex // guards live, and all output
	live *term.Live
}

// newRunScreen makes a screen of Err, which from now on does not wait for its reader
// beyond the end of ctx.
func newRunScreen(ctx context.Context, con *console.Console) *runScreen {
	terminal, _ := con.Err.(*os.File)
	con.Err = hurried(ctx, con.Err)
	return &runScreen{Console: con, terminal: terminal, live: term.NewLive(con.Err)}
}

// hurried returns a writer that does not wait for its reader beyond the end of ctx.
func hurried(ctx context.Context, to io.Writer) io.Writer {
	w := outlet.New(to, unreadGrace)
	context.AfterFunc(ctx, w.Hurry)
	return w
}

// follow shows the progress of the batch until ctx ends.
func (s *runScreen) follow(ctx context.Context, work *programs.Batch) {
	every := sayEvery
	if _, ok := s.LiveWidth(); ok {
		every = drawEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var told news
	for {
		select {
		case <-ctx.Done():
			s.draw(nil)
			return
		case <-tick.C:
		}
		b := work.Run.Progress()
		if width, ok := s.LiveWidth(); ok {
			s.draw(view.Batch(b, width-1, s.height()-1, term.Painter(s.Getenv("NO_COLOR") == "")))
		} else {
			s.tell(b, &told)
		}
	}
}

// news is what a line about a batch says that the line before it did not.
type news struct {
	stage        string
	done, failed int64
	workers      bool
}

// tell says how far a batch is, unless that was told before.
func (s *runScreen) tell(b api.Batch, told *news) {
	now := news{b.Stage, b.Done, b.Failed, b.Workers > 0}
	if now == *told {
		return
	}
	*told = now
	s.say("%s", view.BatchLine(b))
}

// height returns the number of lines of the terminal.
func (s *runScreen) height() int {
	if s.terminal != nil {
		if _, height, err := xterm.GetSize(int(s.terminal.Fd())); err == nil && height > 0 {
			return height
		}
	}
	return usualHeight
}

// notify reports the events that people want to know at once.
func (s *runScreen) notify(e batch.Event) {
	switch e.Code {
	case batch.EventStarted, batch.EventReady, batch.EventCommitted:
		return
	}
	text := term.Clean(strings.ReplaceAll(e.Text, "\n", " "))
	if e.Worker != "" {
		text = fmt.Sprintf("%s on %s: %s", e.Worker, e.GPU, text)
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
	return s.live.Write(text)
}

// draw replaces the last block; nil removes it.
func (s *runScreen) draw(block []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live.Draw(block...)
}
