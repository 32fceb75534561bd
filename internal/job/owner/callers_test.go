package owner

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/internal/job/service"
)

// waitsOf lets one caller keep a number of models busy for hours, and another ask for one
// of its own now and then. It returns how long the second waits at most, and how long the
// first.
func waitsOf(t *testing.T, models int, way service.Way, deaf bool) (rare, flood time.Duration) {
	specs := []service.Spec{spec("own", away(way))}
	for i := range models {
		specs = append(specs, spec(string(rune('a'+i)), away(way)))
	}
	inWorld(t, specs, func(t *testing.T, w *world) {
		w.deaf = deaf
		ctx, stop := context.WithCancel(t.Context())
		longest := make(chan time.Duration)
		for i := range models {
			for range 2 {
				go func() {
					most := time.Duration(0)
					for ctx.Err() == nil {
						asked := time.Now()
						if err := <-w.askAs(ctx, "flood", specs[i+1].Name, 5*time.Second); err == nil {
							most = max(most, time.Since(asked)-5*time.Second)
						}
					}
					longest <- most
				}()
			}
		}
		for i := range min(7**rounds, 21) { // make histories plays more than one round
			time.Sleep(time.Duration(5+i%7) * time.Minute)
			asked := time.Now()
			if err := <-w.askAs(t.Context(), "rare", "own", 2*time.Second); err != nil {
				t.Fatal(err)
			}
			rare = max(rare, time.Since(asked)-2*time.Second)
		}
		stop()
		for range 2 * models {
			flood = max(flood, <-longest)
		}
	})
	return rare, flood
}

// Whoever keeps many models busy does not delay somebody who asks for another one more than
// by the turn of the model that is there.
func TestOneWhoFloods(t *testing.T) {
	for _, way := range []service.Way{service.Stop, service.Park, service.Sleep} {
		for _, models := range []int{2, 4} {
			rare, flood := waitsOf(t, models, way, false)
			before, floodBefore := waitsOf(t, models, way, true)
			t.Logf("%d models by %s: the one who asks now and then waits for %v at most, and did for %v by age alone; the other for %v, and %v", models, way, rare, before, flood, floodBefore)
			// The least stay of the model that is there, longest_wait, the answers that are open
			// then, and two switches: that model may be about to come. A server that is put to
			// sleep is measured for some seconds.
			if most := (60 + 10 + 5 + 2*(8+7) + 10) * time.Second; rare > most {
				t.Errorf("%d models by %s: one who has used nothing waits for %v; want at most %v", models, way, rare, most)
			}
			if rare+time.Duration(models-1)*40*time.Second > before {
				t.Errorf("%d models by %s: it waits for %v, and for %v by age alone", models, way, rare, before)
			}
			if flood > 2*floodBefore {
				t.Errorf("%d models by %s: the other waits for %v, and for %v by age alone", models, way, flood, floodBefore)
			}
		}
	}
}

// Whoever had the machine alone waits for others who come, but no longer than a half-life and
// the turn of one model; then both have as much of it.
func TestOneWhoHadAll(t *testing.T) {
	inWorld(t, []service.Spec{spec("a"), spec("b"), spec("c")}, func(t *testing.T, w *world) {
		ctx, stop := context.WithCancel(t.Context())
		waits, ended := map[string]time.Duration{}, make(chan struct{})
		answers := map[string]int{}
		flood := func(user, model string) {
			for ctx.Err() == nil {
				asked := time.Now()
				if err := <-w.askAs(ctx, user, model, 5*time.Second); err == nil {
					w.Set(func() {
						waits[user], answers[user] = max(waits[user], time.Since(asked)-5*time.Second), answers[user]+1
					})
				}
			}
			ended <- struct{}{}
		}
		go flood("old", "a")
		time.Sleep(time.Hour)
		w.Set(func() { clear(answers) })
		go flood("new", "b")
		go flood("new", "c")
		time.Sleep(3 * time.Hour)
		stop()
		for range 3 {
			<-ended
		}
		t.Logf("the waits are %v, the answers %v", waits, answers)
		if most := service.HalfLife + 90*time.Second; waits["old"] > most {
			t.Errorf("the one who had all waits for %v; want at most %v", waits["old"], most)
		}
		if few, many := min(answers["old"], answers["new"]), max(answers["old"], answers["new"]); 4*few < 3*many {
			t.Errorf("they got %v answers", answers)
		}
	})
}

// What callers have used outlives the daemon, except for the last report, and fades.
func TestUsesOutliveTheDaemon(t *testing.T) {
	inWorld(t, []service.Spec{spec("a"), spec("b")}, func(t *testing.T, w *world) {
		used := func(user string) float64 {
			synctest.Wait()
			d := w.now()
			d.mu.RLock()
			defer d.mu.RUnlock()
			return d.uses.Share(user, time.Now())
		}
		done := w.askAs(t.Context(), "u1", "a", 10*time.Minute)
		time.Sleep(10 * time.Minute)
		s, _ := w.now().Find("a")
		if len(s.Callers) != 1 || s.Callers[0].User != "u1" || s.Callers[0].Open != 1 || s.Callers[0].Used == 0 {
			t.Errorf("a is used by %+v", s.Callers)
		}
		waits := w.askAs(t.Context(), "u2", "b", time.Second)
		synctest.Wait()
		if s, _ = w.now().Find("b"); len(s.Callers) != 1 || s.Callers[0].User != "u2" || s.Callers[0].Waiting != 1 || s.Callers[0].Used != 0 {
			t.Errorf("those who wait for b are %+v", s.Callers)
		}
		before := used("u1")
		if before < 0.4 || before > 0.46 { // 0.6 of the machine for two half-lives
			t.Errorf("u1 has used %v of the machine, want about 0.45", before)
		}
		w.restart()
		if after := used("u1"); after < before-0.01 || after > before {
			t.Errorf("u1 has used %v before the daemon was killed, and %v after", before, after)
		}
		for _, result := range []<-chan error{done, waits} {
			if err := <-result; err != nil {
				t.Error(err)
			}
		}
		if share := used("u2"); share == 0 || share > 0.6*10/433 { // 7 s to come, and a second
			t.Errorf("u2 has used %v of the machine, want some seconds", share)
		}
		time.Sleep(2 * time.Hour)
		if share := used("u1"); share > 1e-4 {
			t.Errorf("hours later u1 has %v", share)
		}
	})
}

// Somebody who has used little and asks for a service that others wait for moves it up, and
// back if they leave.
func TestTheLeastOfThoseWhoWaitCounts(t *testing.T) {
	inWorld(t, []service.Spec{spec("a"), spec("b"), spec("c")}, func(t *testing.T, w *world) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		w.askAs(ctx, "much", "a", time.Hour)
		time.Sleep(30 * time.Second)
		order := func(want ...string) {
			t.Helper()
			time.Sleep(time.Second)
			synctest.Wait()
			var got []string
			w.Set(func() {
				for _, x := range w.sortedWants() {
					got = append(got, x.name)
				}
			})
			if !slices.Equal(got, want) {
				t.Errorf("the queue is %v, want %v", got, want)
			}
		}
		w.askAs(ctx, "much", "b", time.Second)
		time.Sleep(time.Second)
		w.askAs(ctx, "much", "c", time.Second)
		order("b", "c")
		leaves, leave := context.WithCancel(ctx)
		w.askAs(leaves, "little", "c", time.Second)
		order("c", "b")
		leave()
		order("b", "c")
	})
}
