package world

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
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
	shorten = flag.Duration("world.shorten", 3*time.Minute, "search so long for fewer operations that fail as a history did")
	only    = flag.String("world.only", "", "leave out all operations but these, as in 3,17,20")
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
		var w *World
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w = history(t, seed, leftOut(*each, *only))
			w.report(t)
			if len(w.wrongs) > 0 && *shorten > 0 {
				w.shorter(t)
			}
		})
		if w == nil { // somebody plays another one only
			continue
		}
		histories, done, effects, kills, reboots = histories+1, done+w.count.operations, effects+w.count.effects, kills+w.count.kills, reboots+w.count.reboots
		for m, n := range w.marks {
			marks[m] += n
		}
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

// history plays one history, without some of its operations, and returns what came of it.
func history(t *testing.T, seed uint64, leftOut map[int]bool) (w *World) {
	folder, err := os.MkdirTemp("/dev/shm", "berth-world-")
	if err != nil {
		folder = t.TempDir()
	}
	defer os.RemoveAll(folder)
	synctest.Test(t, func(*testing.T) {
		w = New(folder, seed)
		w.keepAlive()
		w.beginFront()
		go w.hear()
		w.play(*each, leftOut)
		if !w.failed() {
			w.settle()
		}
		w.close()
	})
	return w
}

// leftOut returns the operations that are not among some; with none, all are played.
func leftOut(of int, played string) map[int]bool {
	out := map[int]bool{}
	for i := range of {
		out[i] = played != ""
	}
	for number := range strings.SplitSeq(played, ",") {
		if i, err := strconv.Atoi(number); err == nil {
			out[i] = false
		}
	}
	return out
}

// shorter leaves out as many operations of a history that failed as it can while it still
// fails in the same way, and tells which are left. A history is not the same each time: one
// that does not fail in three plays counts as one that does not.
func (w *World) shorter(t *testing.T) {
	until := time.Now().Add(*shorten)
	tries := 0
	fails := func(out map[int]bool) *World {
		for range 3 {
			if tries++; time.Now().After(until) {
				return nil
			}
			if again := history(t, w.seed, out); slices.ContainsFunc(again.wrongs, func(wrong string) bool { return checkOf(wrong) == checkOf(w.wrongs[0]) }) {
				return again
			}
		}
		return nil
	}
	out := leftOut(*each, *only)
	shortest := fails(out)
	if shortest == nil {
		t.Logf("it did not fail again in %d plays", tries)
		return
	}
	for size := *each / 2; size > 0; size /= 2 {
		for from := 0; from < *each; from += size {
			less, any := maps.Clone(out), false
			for i := from; i < min(from+size, *each); i++ {
				any = any || !less[i]
				less[i] = true
			}
			if !any {
				continue
			}
			if failed := fails(less); failed != nil {
				out, shortest = less, failed
			}
		}
	}
	var left []string
	for i := range *each {
		if !out[i] {
			left = append(left, strconv.Itoa(i))
		}
	}
	t.Logf("it fails with %d operations, found in %d plays: %s\n  -world.seed %d -world.operations %d -world.only %s\n%s",
		len(shortest.played), tries, strings.Join(shortest.played, "; "), w.seed, *each, strings.Join(left, ","), shortest.wrongs[0])
	t.Logf("what happened then:\n%s", strings.Join(shortest.told[max(0, len(shortest.told)-10):], "\n"))
}

// checkOf returns which check says that something is wrong.
func checkOf(wrong string) string {
	_, rest, _ := strings.Cut(wrong, ": ")
	check, _, _ := strings.Cut(rest, ": ")
	return check
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
