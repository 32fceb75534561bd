package alert

import (
	"testing"
	"time"
)

func TestTell(t *testing.T) {
	r := &Rule{Alert: "Hot", For: time.Minute}
	active := Active{}
	step := func(minute int, there bool) int {
		at := noon.Add(time.Duration(minute) * time.Minute)
		var answer []Found
		if there {
			answer = append(answer, found("GPU-a"))
		}
		active, _, _ = r.Step(active, answer, at, 0)
		return len(active.Tell(at))
	}
	acknowledge := func(minute, hours int) {
		for key, s := range active {
			at := noon.Add(time.Duration(minute) * time.Minute)
			s.Acknowledged = &Acknowledgement{At: at, Until: at.Add(time.Duration(hours) * time.Hour)}
			active[key] = s
		}
	}
	expect := func(minute int, there bool, want int) {
		t.Helper()
		if got := step(minute, there); got != want {
			t.Errorf("minute %d: %d are told, want %d", minute, got, want)
		}
	}
	expect(0, true, 0) // pending
	expect(1, true, 1)
	expect(2, true, 0)
	expect(241, true, 1) // nobody cares
	acknowledge(242, 8)
	expect(600, true, 0)
	expect(242+8*60, true, 1) // the time is over
	acknowledge(800, 8)
	expect(801, false, 0)
	expect(802, true, 0)
	expect(803, true, 1) // the acknowledgement was for the one before
	expect(804, false, 0)
	expect(805, true, 0)
	acknowledge(805, 1)
	expect(806, true, 1) // it fires for the first time: the event says who cares
	expect(807, true, 0)
}
