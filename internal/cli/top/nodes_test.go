package top

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/tui"
)

// asker takes three seconds to ask two machines, and fails the second time.
type asker struct{ asked int }

func (a *asker) Ask(context.Context) (api.Nodes, error) {
	time.Sleep(3 * time.Second)
	if a.asked++; a.asked == 2 {
		return api.Nodes{}, console.Hinted(errors.New("the server was refused"), "look at it")
	}
	return api.Nodes{Nodes: []api.Node{{Name: "a", Down: "No answer."}, {Name: "b", Status: &api.StatusAll{}}}}, nil
}

// The machines are asked an interval after all of them have answered, not more often,
// and the screen says when nobody can be asked.
func TestPollNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent []tea.Msg
		a := new(asker)
		o := &options{&console.Console{Env: console.Env{Now: time.Now}}, console.Live{Interval: 5 * time.Second}}
		r := &runner{options: o, send: func(m tea.Msg) { sent = append(sent, m) }}
		ctx, cancel := context.WithCancel(t.Context())
		go r.pollNodes(ctx, a.Ask)
		time.Sleep(25 * time.Second) // asked at 5, 13 and 21 s
		cancel()
		synctest.Wait()
		if a.asked != 3 || len(sent) != 3 {
			t.Fatalf("asked %d times, told %d times", a.asked, len(sent))
		}
		p := &program{r, tui.New()}
		p.screen.Several = true
		p.Update(tea.WindowSizeMsg{Width: 80, Height: 20})
		for i, want := range []string{"a: No answer.", "The server was refused; look at it.", "a: No answer."} {
			p.Update(sent[i])
			if shown := p.View().Content; !strings.Contains(shown, want) {
				t.Errorf("after %T:\n%s", sent[i], shown)
			}
		}
		time.Sleep(time.Minute)
		p.Update(ticked{"asking 2 nodes"})
		if shown := p.View().Content; !strings.Contains(shown, "old: asking 2 nodes") {
			t.Errorf("while it takes long:\n%s", shown)
		}
	})
}
