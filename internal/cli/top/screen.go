package top

import (
	"context"
	"io"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/berth-gpu/berth/internal/cli/tui"
)

// screen is a screen of berth top: of one machine, or of several.
type screen interface {
	Tick(now time.Time)
	Resize(width, height int)
	Press(key string) tui.Want
	Wheel(by int)
	Type(character string)
	Frame() []string
}

// hand passes a message of the terminal to a screen, and returns what the user wants.
func hand(s screen, msg tea.Msg) tui.Want {
	switch m := msg.(type) {
	case tea.WindowSizeMsg:
		s.Resize(m.Width, m.Height)
	case tea.KeyPressMsg:
		return s.Press(m.String())
	case tea.MouseWheelMsg:
		switch m.Button {
		case tea.MouseWheelUp:
			s.Wheel(-1)
		case tea.MouseWheelDown:
			s.Wheel(1)
		}
	case tea.PasteMsg:
		for _, r := range m.Content {
			s.Type(string(r))
		}
	}
	return tui.Want{}
}

// leave returns the command that ends or pauses the program, if the user wants that.
func leave(want tui.Want) tea.Cmd {
	switch {
	case want.Quit:
		return tea.Quit
	case want.Suspend:
		return tea.Suspend
	}
	return nil
}

// written returns a screen in the form that the terminal library takes.
func written(s screen) tea.View {
	v := tea.NewView(strings.Join(s.Frame(), "\n"))
	v.AltScreen, v.MouseMode, v.WindowTitle = true, tea.MouseModeCellMotion, "berth top"
	return v
}

// frames limits the frames per second that are written to a terminal, so that a slow
// line gets no more than it can carry.
const frames = 20

// show runs a program until the user quits or ctx ends. The function begin starts the
// work beside it; show waits until that has ended, too.
func (o *options) show(ctx context.Context, model tea.Model, begin func(ctx context.Context, send func(tea.Msg), running *sync.WaitGroup)) error {
	said := o.Err
	o.Err = io.Discard // the screen reports it
	ctx, cancel := context.WithCancel(ctx)
	loop := tea.NewProgram(model, tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithEnvironment(o.Environ()),
		tea.WithoutSignalHandler(), tea.WithFPS(frames))
	var running sync.WaitGroup
	begin(ctx, loop.Send, &running)
	_, err := loop.Run()
	ended := context.Cause(ctx)
	cancel()
	running.Wait()
	o.Err = said
	if ended != nil {
		return ended
	}
	return err
}
