package daemon

import (
	"testing"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
)

// A reader that was there before a restart goes on after it, without a gap.
func TestEventsSurviveARestart(t *testing.T) {
	p := newPlace(t, "sim:1")
	kept := func(c *client.Client, after uint64) (list []gpu.Event) {
		for e, err := range c.Events(t.Context(), after, false) {
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, e)
		}
		return list
	}
	c, stop := p.start(t)
	before := kept(c, 0)
	if err := stop(); err != nil {
		t.Error(err)
	}
	if len(before) == 0 {
		t.Fatal("there were no events")
	}
	c, stop = p.start(t)
	after := kept(c, before[0].ID)
	for i, e := range after {
		if e.Code == gpu.EventGap {
			t.Errorf("there is a gap: %s", e.Text)
		}
		if i < len(before)-1 && e.ID != before[i+1].ID {
			t.Errorf("event %d is %d, and was %d", i+1, e.ID, before[i+1].ID)
		}
	}
	if len(after) < len(before) {
		t.Errorf("%d of %d events are there, and none of the new daemon", len(after), len(before)-1)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
