package alert

import (
	"testing"
	"time"
)

func TestRestore(t *testing.T) {
	minutes := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Minute) }
	for _, c := range []struct {
		name        string
		wait        int // minutes of the rule
		phase       Phase
		active      int // minute at which it was first there; the daemon was last seen at noon
		at          int // minute of the restart
		fires, gone bool
		firesAt     int // minute at which a pending one fires
	}{
		{name: "firing goes on", wait: 2, phase: Firing, active: -5, at: 1, fires: true},
		{name: "firing goes on, also without a time", wait: 0, phase: Firing, active: 0, at: 1, fires: true},
		{name: "firing, on a clock that went back", wait: 2, phase: Firing, active: -5, at: -60, fires: true},
		{name: "too long ago", wait: 2, phase: Firing, active: -5, at: 61, gone: true},
		{name: "pending, too long ago", wait: 30, phase: Pending, active: -5, at: 61, gone: true},
		{name: "a short time begins anew", wait: 5, phase: Pending, active: -4, at: 1, gone: true},
		{name: "nearly over: it gets the grace", wait: 30, phase: Pending, active: -25, at: 3, firesAt: 13},
		{name: "long to go: the pause does not count", wait: 30, phase: Pending, active: -5, at: 3, firesAt: 28},
		{name: "pending, on a clock that went back", wait: 30, phase: Pending, active: -5, at: -60, firesAt: -35},
		{name: "ahead of the last look", wait: 30, phase: Pending, active: 10, at: 1, firesAt: 31},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &Rule{Alert: "Hot", For: time.Duration(c.wait) * time.Minute}
			kept := State{Fingerprint: Fingerprint(found("GPU-a").Labels), Labels: found("GPU-a").Labels, Phase: c.phase, ActiveAt: minutes(c.active)}
			if c.phase == Firing {
				kept.FiredAt = minutes(c.active + c.wait)
			}
			active, dropped := r.Restore([]State{kept}, noon, minutes(c.at))
			if (len(active) == 0) != c.gone || (len(dropped) == 1) != (c.gone && c.phase == Firing) {
				t.Fatalf("restored %v, dropped %v", active, dropped)
			}
			if c.gone {
				return
			}
			step := func(minute int) (Phase, Changes) {
				after, changes, err := r.Step(active, []Found{found("GPU-a")}, minutes(minute), 0)
				if err != nil {
					t.Fatal(err)
				}
				return after.List()[0].Phase, changes
			}
			if c.fires {
				if phase, changes := step(c.at); phase != Firing || len(changes.Fired) != 0 {
					t.Errorf("it is %s, and %d fired anew", phase, len(changes.Fired))
				}
				return
			}
			if phase, _ := step(c.firesAt - 1); phase != Pending {
				t.Errorf("it is %s a minute early", phase)
			}
			if phase, _ := step(c.firesAt); phase != Firing {
				t.Errorf("it is %s, want firing at minute %d", phase, c.firesAt)
			}
		})
	}
}

func TestCarry(t *testing.T) {
	hot, cold := Rule{Alert: "Hot"}, Rule{Alert: "Cold"}
	active := func(r Rule) Active {
		a, _, _ := r.Step(nil, []Found{found("GPU-a")}, noon, 0)
		return a
	}
	before := &Group{Rules: []Rule{hot, cold, hot}}
	list := []Active{active(hot), active(cold), {}}
	longer := hot
	longer.For, longer.Expr = time.Hour, "hotter"
	carried, dropped := carry(before, list, &Group{Rules: []Rule{{Record: "Hot"}, longer}})
	if len(carried) != 2 || len(carried[0]) != 0 || len(carried[1]) != 1 || len(dropped) != 1 {
		t.Errorf("carried %v, dropped %v", carried, dropped)
	}
}
