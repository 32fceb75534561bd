package owner

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/enforce/park/parktest"
	"github.com/berth-gpu/berth/internal/job/service"
	"github.com/berth-gpu/berth/internal/lease/placement"
)

// rounds is how often TestHistories lets rapid play histories.
var rounds = flag.Int("owner.histories", 1, "rounds of random histories of services")

// On each mix there are at most twice the switches of a clairvoyant order that lets
// requests wait as long as the longest has waited here, and whose switches take no time.
func TestMixes(t *testing.T) {
	for _, name := range parktest.Names {
		for _, way := range []service.Way{service.Stop, service.Park} {
			mix := parktest.Mix(t, name)
			specs := []service.Spec{spec("a", away(way)), spec("b", away(way)), spec("c", away(way))}
			inWorld(t, specs, func(t *testing.T, w *world) {
				w.script = func(string, int) plan {
					return plan{come: 7 * time.Second, leave: 2 * time.Second, parks: 2 * time.Second, resumes: 7 * time.Second}
				}
				began := time.Now()
				done := make(chan time.Duration, len(mix))
				for _, a := range mix {
					time.Sleep(time.Until(began.Add(time.Duration(a.At) * time.Second)))
					asked, takes := time.Now(), time.Duration(a.Takes)*time.Second
					result := w.ask(t.Context(), a.Model, takes)
					go func() {
						if err := <-result; err != nil {
							t.Errorf("%s: a request is not answered: %v", name, err)
						}
						done <- time.Since(asked) - takes
					}()
				}
				longest := time.Duration(0)
				for range mix {
					longest = max(longest, <-done)
				}
				switches := uint64(0)
				for _, s := range w.daemon.List() {
					switches += s.Switches
				}
				least := parktest.Clairvoyant(mix, int(longest/time.Second)+1)
				t.Logf("%s by %s: %d requests, %d switches, the longest wait is %v; a clairvoyant order needs %d switches", name, way, len(mix), switches, longest, least)
				if switches > 2*uint64(least) {
					t.Errorf("%s by %s: %d switches; want at most twice %d", name, way, switches, least)
				}
				if most := w.rules.Keep + w.rules.Wait + 2*(9+8)*time.Second; longest > most {
					t.Errorf("%s by %s: a request waits for %v; want at most %v", name, way, longest, most)
				}
			})
		}
	}
}

// undated hides the deadline of a test, which means nothing where time is not real.
type undated struct{ rapid.TB }

// history is a random history of a machine with services: requests come and their callers
// leave, servers fail, the daemon and fronts are killed, the memory of the machine and the
// disk are full.
type history struct {
	*rapid.T
	*world
	open  int           // requests
	done  chan struct{} // gets one for each that has ended
	waits time.Duration // that every request is bound to
}

func (h *history) draw(name string, least, most int) int {
	return rapid.IntRange(least, most).Draw(h.T, name)
}

func (h *history) some() string { return rapid.SampledFrom(h.specs).Draw(h.T, "service").Name }

// request sends a request whose caller waits as long as a front lets it, or leaves.
func (h *history) request() {
	name, takes, leaves := h.some(), time.Duration(h.draw("takes", 0, 40))*time.Second, h.draw("leaves", 0, 9) == 0
	endless := h.draw("endless", 0, 30) == 0
	user := rapid.SampledFrom([]string{"u", "v", "w", ""}).Draw(h.T, "user")
	if endless {
		takes = 30 * time.Minute // nobody could wait so long for the others
	}
	ctx, cancel := context.WithTimeout(context.Background(), h.waits)
	if leaves {
		ctx, cancel = context.WithTimeout(context.Background(), time.Duration(h.draw("after", 0, 20))*time.Second)
	}
	var f *tfront
	h.Set(func() {
		if len(h.fronts) > 0 {
			f = h.fronts[len(h.fronts)-1]
		}
	})
	if f == nil {
		cancel()
		return
	}
	h.open++
	go func() {
		defer cancel()
		err := f.request(ctx, name, user, takes)
		refused := (*Refusal)(nil)
		if err != nil && !errors.As(err, &refused) && !errors.Is(err, errBroken) && !leaves && !(endless && errors.Is(err, errCut)) {
			var states string
			for _, s := range h.now().List() {
				states += fmt.Sprintf(" %s %s (%s)", s.Name, s.State, s.Why)
			}
			h.Errorf("a request for %s is neither answered nor refused in %v: %v;%s", name, h.waits, err, states)
		}
		h.done <- struct{}{}
	}()
}

func (h *history) step() {
	name := h.some()
	switch h.draw("step", 0, 24) {
	case 0:
		h.Set(func() { h.host = gpu.MiB(h.draw("host", 0, 1)) * 200 })
	case 1:
		h.Set(func() { h.unfit[name] = !h.unfit[name] })
	case 2, 3:
		h.kill(name)
	case 4:
		h.revoke(name)
	case 5, 6:
		h.now().Kill()
	case 7:
		h.Set(func() { h.KillAt = 2*h.Steps + h.draw("half-steps", 1, 60) })
	case 8:
		var old []*tfront
		h.Set(func() { old = slices.Clone(h.fronts) })
		h.front()
		for _, f := range old {
			f.kill()
		}
	case 9:
		switch d := h.now(); h.draw("order", 0, 3) {
		case 0:
			_ = d.Stop(name, operator, "")
		case 1:
			_ = d.Restart(name, operator, "")
		case 2:
			_ = d.Move(name, "G1", operator, "")
		}
		time.Sleep(time.Duration(h.draw("stopped", 0, 30)) * time.Second)
		h.persist(func(d *daemon) error { return d.Start(name, operator, "") })
	case 10:
		h.Set(func() { h.full = true })
		time.Sleep(time.Duration(h.draw("full", 0, 30)) * time.Second)
		h.Set(func() { h.full = false })
	case 11:
		h.now().Configure(h.specs)
	default:
		for range h.draw("requests", 1, 4) {
			h.request()
		}
	}
	time.Sleep(time.Duration(h.draw("pause", 0, 60)) * time.Second)
	synctest.Wait()
}

func (h *history) play() {
	ways := []service.Way{service.Auto, service.Park, service.Sleep, service.Stop}
	for i := range h.draw("services", 2, 4) {
		h.specs = append(h.specs, spec(fmt.Sprintf("s%d", i), away(rapid.SampledFrom(ways).Draw(h.T, "way")), func(s *service.Spec) {
			s.Sleep, s.Wake = spec("", away(service.Sleep)).Sleep, spec("", away(service.Sleep)).Wake
			s.Memory = gpu.Some(gpu.MiB(h.draw("memory", 20, 95)))
			s.StartTimeout, s.Slice = 40*time.Second, time.Duration(h.draw("finish", 40, 120))*time.Second
			if h.draw("idles", 0, 2) == 0 {
				s.IdleAfter = gpu.Some(time.Duration(h.draw("idle", 0, 100)) * time.Second)
			}
			if h.draw("always", 0, 4) == 0 {
				s.Start = service.Always
			}
			s.Default = i == 0 && h.draw("default", 0, 2) == 0
		}))
	}
	h.room["G1"] = 80
	h.rules = placement.Rules{Keep: time.Duration(h.draw("keep", 0, 60)) * time.Second, Slice: time.Duration(h.draw("slice", 1, 200)) * time.Second, Wait: time.Duration(h.draw("wait", 1, 30)) * time.Second}
	// The least stays of the others, their answers, their goings and comings, twice over for
	// those that fail.
	h.waits = 20 * time.Minute
	h.script = func(name string, nth int) plan {
		switch h := (nth*7 + len(name)*3 + int(name[1])) % 11; h {
		case 0:
			return plan{come: -1, leave: time.Second}
		case 1:
			return plan{come: -1, dies: 3 * time.Second}
		case 2:
			return plan{come: 5 * time.Second, leave: time.Second, sleepErr: "500", parks: time.Second, resumes: time.Second}
		}
		return plan{come: time.Duration(nth%9) * time.Second, leave: 2 * time.Second, parks: 4 * time.Second, resumes: 3 * time.Second, sleeps: time.Second, wakes: 2 * time.Second, keeps: 5}
	}
	h.start()
	synctest.Wait()
	stop := h.revive()
	h.front()
	for range h.draw("steps", 10, 60) {
		h.step()
	}
	for range h.open {
		<-h.done
	}
	time.Sleep(time.Hour + 10*time.Minute)
	synctest.Wait()
	h.tidy()
	stop()
	h.close()
}

// Whatever happens, every request is answered or refused in its time, memory is never sold
// twice, no switch disturbs a request, and nothing is left over.
func TestHistories(t *testing.T) {
	for range *rounds {
		synctest.Test(t, func(t *testing.T) {
			rapid.Check(undated{t}, func(t *rapid.T) {
				(&history{T: t, world: newWorld(t), done: make(chan struct{}, 1000)}).play()
			})
		})
	}
}
