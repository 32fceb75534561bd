package past

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// jumps are moments at which a clock is set. The store goes on at each of them,
// and keeps what it had before.
func TestClocks(t *testing.T) {
	const hour, day = time.Hour, 24 * time.Hour
	for name, jumps := range map[string][]time.Duration{
		"back an hour":               {-hour},
		"back three hours":           {-3 * hour},
		"a day ahead and back":       {day, -day},
		"years ahead":                {20 * 365 * day},
		"years ahead and back":       {20 * 365 * day, -20 * 365 * day},
		"back to 1970 and right":     {noon.Sub(time.Unix(0, 0)) * -1, noon.Sub(time.Unix(0, 0))},
		"before 1970":                {noon.Sub(time.Unix(0, 0))*-1 - day, noon.Sub(time.Unix(0, 0)) + day},
		"to and fro":                 {day, -day, 30 * day, -30 * day},
		"ahead by as much as it may": {time.Unix(1<<40, 0).Sub(noon), -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			p, events := open(t, dir, usual)
			clock := noon
			end := clock.Add(hour)
			fill(t, p, clock, end, 30*time.Second)
			p.Tidy(end)
			before := len(read(t, p, "gpu_load", noon, end))
			clock = end
			var told []gpu.Event
			for i, jump := range jumps {
				clock = clock.Add(jump)
				fill(t, p, clock, clock.Add(5*time.Minute), 10*time.Second)
				p.Tidy(clock)
				got := read(t, p, "gpu_load", clock, clock.Add(5*time.Minute))
				if len(got) < 30 {
					t.Fatalf("after jump %d there are %d samples of 30", i, len(got))
				}
				if i == 1 { // a restart in between
					if err := p.Close(); err != nil {
						t.Fatal(err)
					}
					told = append(told, events.take()...)
					p, events = open(t, dir, usual)
				}
				clock = clock.Add(5 * time.Minute)
			}
			// The clock is right again, and some time passes.
			clock = end.Add(6 * hour)
			for range 2 {
				fill(t, p, clock, clock.Add(time.Hour), time.Minute)
				clock = clock.Add(time.Hour)
				p.Tidy(clock)
			}
			if err := p.Close(); err != nil { // what came back is there at once after a start
				t.Fatal(err)
			}
			told = append(told, events.take()...)
			p, events = open(t, dir, usual)
			if after := len(read(t, p, "gpu_load", noon, end.Add(-time.Second))); after < before {
				t.Errorf("%d of %d samples from before the jumps are left", after, before)
			}
			for _, e := range append(told, events.take()...) {
				if e.Code != gpu.EventPast || !strings.HasPrefix(e.Text, "The clock went back by ") {
					t.Errorf("an event says %s: %s", e.Code, e.Text)
				}
			}
		})
	}
}
