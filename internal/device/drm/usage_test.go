package drm_test

import (
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/drm"
)

var begun = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func work(pid int, id uint64, name string, e drm.Engine) drm.Used {
	return drm.Used{PID: pid, Clients: []drm.Client{{ID: id, Engines: map[string]drm.Engine{name: e}}}}
}

func TestUsage(t *testing.T) {
	second := uint64(time.Second)
	for _, c := range []struct {
		name          string
		before, after []drm.Used // two seconds apart
		want          map[int]gpu.Percent
		card          gpu.Percent
	}{
		{"half the time", []drm.Used{work(1, 1, "gfx", drm.Engine{Busy: second})}, []drm.Used{work(1, 1, "gfx", drm.Engine{Busy: 2 * second})},
			map[int]gpu.Percent{1: 50}, 50},
		{"two programs on one engine", []drm.Used{work(1, 1, "gfx", drm.Engine{}), work(2, 2, "gfx", drm.Engine{})},
			[]drm.Used{work(1, 1, "gfx", drm.Engine{Busy: second}), work(2, 2, "gfx", drm.Engine{Busy: second / 2})},
			map[int]gpu.Percent{1: 50, 2: 25}, 75},
		{"cycles", []drm.Used{work(1, 1, "ccs", drm.Engine{Busy: 10, Total: 100})}, []drm.Used{work(1, 1, "ccs", drm.Engine{Busy: 30, Total: 200})},
			map[int]gpu.Percent{1: 20}, 20},
		{"two engines of a kind", []drm.Used{work(1, 1, "vcs", drm.Engine{Capacity: 2})}, []drm.Used{work(1, 1, "vcs", drm.Engine{Busy: 2 * second, Capacity: 2})},
			map[int]gpu.Percent{1: 50}, 50},
		{"a counter that goes back", []drm.Used{work(1, 1, "gfx", drm.Engine{Busy: second})}, []drm.Used{work(1, 1, "gfx", drm.Engine{Busy: 5})},
			map[int]gpu.Percent{1: 0}, 0},
		{"more than there is", []drm.Used{work(1, 1, "gfx", drm.Engine{})}, []drm.Used{work(1, 1, "gfx", drm.Engine{Busy: 100 * second})},
			map[int]gpu.Percent{1: 100}, 100},
		{"somebody new", nil, []drm.Used{work(1, 1, "gfx", drm.Engine{Busy: 100 * second})}, map[int]gpu.Percent{}, 0},
		{"somebody who left", []drm.Used{work(1, 1, "gfx", drm.Engine{})}, nil, map[int]gpu.Percent{}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var u drm.Usage
			u.Add(begun, c.before)
			if s := u.Since(begun); !s.From.Equal(s.Until) || len(s.Process) > 0 {
				t.Errorf("after one moment: %+v", s)
			}
			u.Add(begun.Add(2*time.Second), c.after)
			s := u.Since(begun)
			if len(s.Process) != len(c.want) || s.Card != c.card {
				t.Errorf("got %v and %v for the card, want %v and %v", s.Process, s.Card, c.want, c.card)
			}
			for pid, want := range c.want {
				if s.Process[pid] != want {
					t.Errorf("process %d has %v, want %v", pid, s.Process[pid], want)
				}
			}
		})
	}
}

// Somebody who asks ten times a second and somebody who asks about the last
// seconds both get an answer.
func TestUsageReachesBack(t *testing.T) {
	var u drm.Usage
	at := begun
	for range 600 {
		at = at.Add(100 * time.Millisecond)
		busy := uint64(at.Sub(begun)) / 4
		u.Add(at, []drm.Used{work(1, 1, "gfx", drm.Engine{Busy: busy})})
	}
	since := at.Add(-3 * time.Second)
	s := u.Since(since)
	if length := s.Until.Sub(s.From); s.From.Before(since) || length < 2*time.Second || s.Process[1] < 24.9 || s.Process[1] > 25.1 {
		t.Errorf("over %v: %v", length, s.Process)
	}
	s = u.Over(3 * time.Second)
	if length := s.Until.Sub(s.From); length < 3*time.Second || length > 4*time.Second || s.Process[1] < 24.9 || s.Process[1] > 25.1 {
		t.Errorf("over %v: %v", length, s.Process)
	}
	if s := u.Since(begun); s.Until.Sub(s.From) < 5*time.Second {
		t.Errorf("the past reaches back %v only", s.Until.Sub(s.From))
	}
	// Whoever asks from where the last answer ended misses nothing.
	since = at
	for range 5 {
		at = at.Add(20 * time.Millisecond)
		u.Add(at, []drm.Used{work(1, 1, "gfx", drm.Engine{Busy: uint64(at.Sub(begun)) / 4})})
		s := u.Since(since)
		if !s.From.Equal(since) || !s.Until.Equal(at) || s.Process[1] < 24 || s.Process[1] > 26 {
			t.Errorf("from %v: %+v", since, s)
		}
		since = s.Until
	}
	u.Add(begun, nil) // the clock is set back
	if s := u.Since(begun); !s.Until.Equal(begun) {
		t.Errorf("after the clock was set back: %+v", s)
	}
	for _, s := range []drm.Shares{(&drm.Usage{}).Since(begun), (&drm.Usage{}).Over(time.Second), u.Since(begun.Add(time.Hour))} {
		if len(s.Process) > 0 || !s.From.IsZero() {
			t.Errorf("of nothing: %+v", s)
		}
	}
}
