package world

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var (
	length  = flag.Duration("world.for", time.Minute, "play for so long")
	first   = flag.Uint64("world.seed", 1, "begin with this seed")
	each    = flag.Int("world.operations", 300, "of one history")
	counts  = flag.Bool("world.counts", false, "tell how often each mark was reached")
	verbose = flag.Bool("world.told", false, "tell what happens")
)

// Histories of whole daemons in a simulated machine: what callers were told is so, and
// everything ends.
func TestWorld(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the daemon of the world is one of root")
	}
	begun, marks := time.Now(), map[string]int{}
	var histories, done, effects, kills, reboots int
	for seed := *first; time.Since(begun) < *length || seed == *first; seed++ {
		folder, err := os.MkdirTemp("/dev/shm", "berth-world-")
		if err != nil {
			folder = t.TempDir()
		}
		defer os.RemoveAll(folder)
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := New(folder, seed)
				w.keepAlive()
				w.beginFront()
				go w.hear()
				w.play(*each)
				if !w.failed() {
					w.settle()
				}
				w.close()
				w.report(t)
				histories, done, effects, kills, reboots = histories+1, done+w.count.operations, effects+w.count.effects, kills+w.count.kills, reboots+w.count.reboots
				for m, n := range w.marks {
					marks[m] += n
				}
			})
		})
		os.RemoveAll(folder)
		if !ok {
			break
		}
	}
	t.Logf("%d histories, %d operations, %d effects, %d kills, %d reboots in %v on %d processors", histories, done, effects, kills, reboots, time.Since(begun).Round(time.Second), runtime.GOMAXPROCS(0))
	missed := never(marks)
	t.Logf("%d of %d marks were reached, never:\n  %s", len(Marks())-len(missed), len(Marks()), wrapped(missed))
	if *counts {
		for _, m := range slices.Sorted(maps.Keys(marks)) {
			t.Logf("%6d %s", marks[m], m)
		}
	}
}

// The promises name the checks that hold them, and each check is named.
func TestGuaranteesNameTheChecks(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{"machine": true}
	for _, m := range regexp.MustCompile("`make world` \\(([^)]*)\\)").FindAllStringSubmatch(string(text), -1) {
		for _, check := range strings.Split(strings.ReplaceAll(m[1], "`", ""), ", ") {
			if named[check] = true; Checks[check] == "" {
				t.Errorf("there is no check %q", check)
			}
		}
	}
	for check := range Checks {
		if !named[check] {
			t.Errorf("no promise names the check %s", check)
		}
	}
}

// close ends the daemon and everything that runs.
func (w *World) close() {
	w.effects.Lock()
	w.killIn = 0
	w.effects.Unlock()
	w.people.mend()
	for _, c := range w.cards {
		c.mend()
	}
	if l := w.life(); l != nil {
		l.stop()
		<-l.over
	}
	w.front.stop()
	w.stopHearing()
	w.rebooted()
	time.Sleep(24 * time.Hour) // until every caller has given up
}

func (w *World) report(t *testing.T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, wrong := range w.wrongs {
		t.Error(wrong)
	}
	if len(w.wrongs) > 0 || *verbose {
		told := w.told[max(0, len(w.told)-40):]
		t.Logf("what happened last:\n%s", strings.Join(told, "\n"))
		log := strings.Split(strings.TrimSpace(w.logged.String()), "\n")
		t.Logf("what daemons logged last:\n%s", strings.Join(log[max(0, len(log)-30):], "\n"))
	}
}
