package peaks

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// fences gives every lease another fence.
var fences atomic.Uint64

func held(id, name string, memory gpu.MiB) *lease.Lease {
	return &lease.Lease{
		ID: id, Fence: fences.Add(1), Granted: noon, Holder: lease.Holder{User: "ada", Name: name, PID: 7},
		Parts: []lease.Part{{GPU: "GPU-a", Memory: memory}, {GPU: "GPU-b", Memory: memory}},
	}
}

// A lease that had children is no run: its children are.
func TestParentsAreNoRuns(t *testing.T) {
	p := New()
	slot, child := held("parent", "slot", 0), held("child", "worker.py", 4096)
	child.Parent, child.ParentFence = slot.ID, slot.Fence
	p.Ended(child, gpu.Opt[gpu.Watts]{}, noon)
	theirs := held("parent", "theirs", 0)
	theirs.Holder.UID = 1001
	p.Ended(theirs, gpu.Opt[gpu.Watts]{}, noon) // another user uses the id too
	p.Ended(slot, gpu.Opt[gpu.Watts]{}, noon)
	p.Ended(held("parent", "again", 0), gpu.Opt[gpu.Watts]{}, noon) // the id is used again
	for name, want := range map[string]bool{"worker.py": true, "theirs": true, "slot": false, "again": true} {
		if _, known := p.Find(Key{User: "ada", Name: name}); known != want {
			t.Errorf("%s is known: %v", name, known)
		}
	}
	for i := range keptRunning + 10 {
		child.ParentFence = uint64(i) + 1000
		p.Ended(child, gpu.Opt[gpu.Watts]{}, noon)
	}
	if len(p.parents) > keptRunning {
		t.Errorf("%d parents are remembered", len(p.parents))
	}
}

// second is when the sample was taken that many seconds after noon.
func second(n int) time.Time { return noon.Add(time.Duration(n) * time.Second) }

// watch measures a lease so often, always the same on each of its devices.
func watch(p *Peaks, l *lease.Lease, used gpu.MiB, samples int) {
	for i := range samples {
		for _, part := range l.Parts {
			p.Use(l, part.GPU, used, gpu.Opt[gpu.Percent]{}, second(i))
		}
	}
}

func TestLeasesBecomeRuns(t *testing.T) {
	p := New()
	l := held("x", "train.py", 4096)
	for i, used := range []gpu.MiB{100, 3000, 2000} {
		p.Use(l, "GPU-a", used, gpu.Opt[gpu.Percent]{}, second(i))
		p.Use(l, "GPU-b", 100, gpu.Opt[gpu.Percent]{}, second(i))
	}
	p.Ended(l, gpu.Some(gpu.Watts(300)), noon.Add(90*time.Second))
	p.Ended(held("y", "train.py", 0), gpu.Opt[gpu.Watts]{}, noon.Add(30*time.Second)) // never seen on a device
	p.Ended(&lease.Lease{ID: "z", Holder: lease.Holder{Name: "no process"}, Parts: l.Parts}, gpu.Opt[gpu.Watts]{}, noon)
	p.Ended(&lease.Lease{ID: "z", Holder: lease.Holder{PID: 7}, Parts: l.Parts}, gpu.Opt[gpu.Watts]{}, noon) // nameless
	want := []Entry{{
		Key: Key{User: "ada", Name: "train.py"}, Count: 2, Last: noon.Add(30 * time.Second),
		Runs: []Run{{Peak: 3000, Asked: 4096, Seconds: 90, Kind: program, Drew: gpu.Some(gpu.Watts(300))}, {Seconds: 30, Kind: program}}, Ceiling: 4096,
	}}
	if diff := cmp.Diff(want, p.All(), cmp.AllowUnexported(gpu.Opt[gpu.Watts]{})); diff != "" {
		t.Error(diff)
	}
	e, known := p.Find(Key{User: "ada", Name: "train.py"})
	if !known || e.Peak() != 3000 || e.Seconds() != 60 || e.Asked() != 0 {
		t.Errorf("found %+v, %v", e, known)
	}
	if e, known := p.Find(Key{User: "bob", Name: "train.py"}); known {
		t.Errorf("another user sees %+v", e)
	}
}

func TestNeed(t *testing.T) {
	for name, test := range map[string]struct {
		runs []Run
		want gpu.MiB
	}{
		"nothing seen":            {[]Run{{Seconds: 1}}, 0},
		"no lease of memory":      {[]Run{{Peak: 10000}}, 11008}, // and 1000, rounded up to 64
		"a small one":             {[]Run{{Peak: 500}}, 768},     // and 256
		"less than a context":     {[]Run{{Peak: 14}}, 756},      // 500 and 256
		"well within":             {[]Run{{Peak: 1000, Asked: 8192}}, 1280},
		"all that it might have":  {[]Run{{Peak: 4000, Asked: 4096}}, 4096},
		"more than it might have": {[]Run{{Peak: 5000, Asked: 4096}}, 5504},
		"the largest of the last": {[]Run{{Peak: 1000}, {Peak: 3000}, {Peak: 2000}}, 3328},
		"all that was learned": {
			[]Run{{Peak: 1000, Asked: 8192}, {Peak: 1279, Asked: 1280, Learned: true}}, 1536,
		},
		"nearly all that was learned": {
			[]Run{{Peak: 1000, Asked: 8192}, {Peak: 1216, Asked: 1280, Learned: true}}, 1472,
		},
		"some of what was learned": {
			[]Run{{Peak: 1000, Asked: 8192}, {Peak: 1100, Asked: 1280, Learned: true}}, 1280,
		},
		"all that was learned, and anybody ever wanted": {
			[]Run{{Peak: 1000, Asked: 1400}, {Peak: 1279, Asked: 1280, Learned: true}}, 1400,
		},
		"all that was learned of a run without a limit": {
			[]Run{{Peak: 1000}, {Peak: 1279, Asked: 1280, Learned: true}}, 1536,
		},
		"the last ones, not older": {append(manyRuns(keptRuns, 1000), Run{Peak: 1000}), 1280},
	} {
		p := New()
		p.Add(Key{Name: "x"}, Run{Peak: 90000}, noon) // forgotten, if enough come after it
		if len(test.runs) <= keptRuns {
			p = New()
		}
		for _, r := range test.runs {
			p.Add(Key{Name: "x"}, r, noon)
		}
		e, _ := p.Find(Key{Name: "x"})
		if got := e.Need(500); got != test.want {
			t.Errorf("%s: needs %d, want %d", name, int64(got), int64(test.want))
		}
	}
}

func manyRuns(n int, peak gpu.MiB) []Run {
	runs := make([]Run, n)
	for i := range runs {
		runs[i].Peak = peak
	}
	return runs
}

// A library that takes all it may have is not given more with every run.
func TestNeedDoesNotCreep(t *testing.T) {
	p := New()
	key := Key{Name: "jax"}
	p.Add(key, Run{Peak: 4000, Asked: 4096}, noon)
	for range 100 {
		need, _ := p.Offer(key, 500, 100_000)
		p.Add(key, Run{Peak: need - 10, Asked: need, Learned: true}, noon)
	}
	if e, _ := p.Find(key); e.Need(500) != 4096 {
		t.Errorf("after a hundred runs it needs %v", e.Need(500))
	}
}

// What was learned too low is not kept for ever: runs that fill it get more, up
// to what was asked for when somebody still asked.
func TestNeedGrows(t *testing.T) {
	p := New()
	run := func(id string, memory, used gpu.MiB) {
		l := held(id, "grows", memory)
		watch(p, l, used, fewSamples)
		p.Ended(l, gpu.Opt[gpu.Watts]{}, noon.Add(time.Minute))
	}
	key := Key{User: "ada", Name: "grows"}
	run("asked", 8192, 1000)
	for i := range 100 {
		need, _ := p.Offer(key, 500, 100_000)
		p.Took(key, need)
		run(fmt.Sprint(i), need, need)
	}
	if need, peak := p.Offer(key, 500, 100_000); need != 8192 || peak != 8192 {
		t.Errorf("after a hundred full runs it gets %v, and used %v", need, peak)
	}
	if need, _ := p.Offer(key, 500, 6000); need != 6000 {
		t.Errorf("where no more than 6000 MiB fit it gets %v", need)
	}
	if need, peak := p.Offer(Key{Name: "nobody"}, 500, 6000); need != 0 || peak != 0 {
		t.Errorf("nothing is known, and it gets %v of %v", need, peak)
	}
}

// What was measured is shown; what is too little to go by is not offered.
func TestWhatIsNotBelieved(t *testing.T) {
	for name, test := range map[string]struct {
		by         string
		samples    int
		peak, need gpu.MiB
	}{
		"long enough": {"framework", fewSamples, 3000, 3328},
		"a short run": {"framework", fewSamples - 1, 3000, 0},
		"one sample":  {"framework", 1, 3000, 0},
		"unseen":      {"framework", 0, 0, 0},
		"under MPS":   {"mps", 100, 0, 0},
	} {
		p := New()
		l := held("x", "train.py", 4096)
		l.EnforcedBy = test.by
		watch(p, l, 3000, test.samples)
		p.Ended(l, gpu.Opt[gpu.Watts]{}, noon.Add(time.Minute))
		e, known := p.Find(Key{User: "ada", Name: "train.py"})
		if !known || e.Peak() != test.peak || e.Need(500) != test.need || (e.Known() > 0) != (test.need > 0) || e.Count != 1 {
			t.Errorf("%s: %+v, %v", name, e, known)
		}
	}
}

// Beside longer runs a short one counts: it used that much at least.
func TestShortRunsRaiseTheNeed(t *testing.T) {
	p := New()
	key := Key{Name: "x"}
	p.Add(key, Run{Peak: 9000, Short: true}, noon)
	p.Add(key, Run{Peak: 1000}, noon)
	if e, _ := p.Find(key); e.Known() != 9000 || e.Need(500) != 9920 {
		t.Errorf("it used %v and needs %v", e.Known(), e.Need(500))
	}
}

// A device that does not answer is shown with its last sample again, which does
// not make a short run a long one.
func TestSampleThatWasSeenIsNotCounted(t *testing.T) {
	p := New()
	l := held("x", "train.py", 4096)
	for range 10 * fewSamples {
		watch(p, l, 3000, 1)
	}
	p.Ended(l, gpu.Opt[gpu.Watts]{}, noon.Add(time.Minute))
	if e, _ := p.Find(Key{User: "ada", Name: "train.py"}); e.Peak() != 3000 || e.Need(500) != 0 {
		t.Errorf("used %v, and needs %v", e.Peak(), e.Need(500))
	}
}

// Only what was leased is remembered as offered, and it is written down.
func TestOfferThatWasTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.json")
	synctest.Test(t, func(t *testing.T) {
		p, damage := Open(path)
		if damage != nil {
			t.Fatal(damage)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		key := Key{User: "ada", Name: "a"}
		p.Add(key, Run{Peak: 1000}, noon)
		offered := func() gpu.MiB {
			time.Sleep(2 * writeAfter) // simulated
			synctest.Wait()
			kept, damage := Open(path)
			if damage != nil {
				t.Fatal(damage)
			}
			e, _ := kept.Find(key)
			return e.Offered
		}
		need, _ := p.Offer(key, 500, 100_000)
		if got := offered(); need != 1280 || got != 0 {
			t.Errorf("%v was offered, and %v is remembered though nobody took it", need, got)
		}
		p.Took(key, need)
		if got := offered(); got != need {
			t.Errorf("%v was taken, and %v is remembered", need, got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// What a lease used is known to the next daemon. Of a lease that stood before the daemon
// began, and that no daemon has written down, nobody knows what it used.
func TestMostAcrossARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.json")
	synctest.Test(t, func(t *testing.T) {
		p, damage := Open(path)
		if damage != nil {
			t.Fatal(damage)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		fresh, silent := held("fresh", "", 60_000), held("silent", "", 60_000)
		fresh.Granted, silent.Granted = time.Now(), time.Now()
		watch(p, fresh, 55_000, fewSamples)
		time.Sleep(2 * writeAfter) // simulated
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		again, damage := Open(path)
		if damage != nil {
			t.Fatal(damage)
		}
		for _, l := range []*lease.Lease{fresh, silent} {
			again.Use(l, "GPU-a", 5000, gpu.Opt[gpu.Percent]{}, noon.Add(time.Hour))
		}
		if most, samples := again.Most(fresh.Fence); most != 55_000 || samples != fewSamples*len(fresh.Parts)+1 || again.Partial(fresh.Fence) {
			t.Errorf("of the first %v are known in %d samples", most, samples)
		}
		if !again.Partial(silent.Fence) {
			t.Error("nobody measured the second one, and it passes for known")
		}
		late := held("late", "", 60_000)
		late.Granted = time.Now()
		if watch(again, late, 5000, 1); again.Partial(late.Fence) {
			t.Error("one that was granted since passes for unknown")
		}
	})
}

func TestKeptAcrossRestarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.json")
	synctest.Test(t, func(t *testing.T) {
		p, damage := Open(path)
		if damage != nil {
			t.Fatal(damage)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		p.Add(Key{User: "ada", Name: "a", Step: "s"}, Run{Peak: 5, Seconds: 1.5}, noon)
		time.Sleep(writeAfter + time.Second) // simulated
		synctest.Wait()
		if again, damage := Open(path); damage != nil || len(again.All()) != 1 {
			t.Errorf("a few seconds later the file has %v, %v", again, damage)
		}
		p.Add(Key{User: "ada", Name: "b"}, Run{}, noon)
		cancel() // before it was due
		if err := <-done; err != nil {
			t.Error(err)
		}
		again, damage := Open(path)
		if diff := cmp.Diff(p.All(), again.All(), cmp.AllowUnexported(gpu.Opt[gpu.Watts]{})); diff != "" || damage != nil {
			t.Error(diff, damage)
		}
	})
}

func TestUnreadableIsPutAside(t *testing.T) {
	for name, text := range map[string]string{
		"torn": `{"version":1,"entries":[{"us`, "of a newer berth": `{"version":2,"entries":[]}`, "empty": "",
	} {
		path := filepath.Join(t.TempDir(), "history.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p, damage := Open(path)
		if damage == nil || len(p.All()) != 0 {
			t.Fatalf("%s: %v", name, damage)
		}
		if kept, err := os.ReadFile(damage.Aside); err != nil || string(kept) != text {
			t.Errorf("%s: it is not kept: %q, %v", name, kept, err)
		}
	}
	if _, damage := Open(t.TempDir()); damage == nil {
		t.Error("a folder was read")
	}
}

func TestBounded(t *testing.T) {
	p := New()
	for i := range keptPerUser + 10 {
		p.Add(Key{Name: fmt.Sprint(i)}, Run{}, second(i))
	}
	if n := len(p.All()); n != keptPerUser {
		t.Errorf("%d entries are kept", n)
	}
	if _, known := p.Find(Key{Name: "9"}); known {
		t.Error("the oldest are still there")
	}
	if _, known := p.Find(Key{Name: "10"}); !known {
		t.Error("a newer one is forgotten")
	}
}

// One user cannot make berth forget what it learned for others.
func TestUsersDoNotEvictEachOther(t *testing.T) {
	p := New()
	ada := Key{User: "ada", Name: "train.py"}
	p.Add(ada, Run{Peak: 1000}, noon) // the oldest of all
	for i := range keptPerUser + 100 {
		p.Add(Key{User: "mallory", Name: fmt.Sprint(i)}, Run{}, second(i))
	}
	if n := len(p.All()); n != 1+keptPerUser {
		t.Errorf("%d entries are kept, want %d", n, 1+keptPerUser)
	}
	users := keptEntries / keptPerUser * 2
	for i := range keptEntries + 100 { // everything is full
		p.Add(Key{User: fmt.Sprint("user", i%users), Name: fmt.Sprint(i)}, Run{}, second(i))
	}
	if n := len(p.All()); n != keptEntries {
		t.Errorf("%d entries are kept, want %d", n, keptEntries)
	}
	if _, known := p.Find(ada); !known {
		t.Error("what was learned for ada is forgotten")
	}
}

func TestRunningIsBounded(t *testing.T) {
	p := New()
	old := held("old", "old.py", 4096)
	watch(p, old, 1000, fewSamples)
	for i := range keptRunning + 10 { // leases that never end
		p.Use(held(fmt.Sprint(i), "x", 0), "GPU-a", 1, gpu.Opt[gpu.Percent]{}, second(100+i))
	}
	if len(p.running) != keptRunning {
		t.Errorf("%d leases are remembered, want %d", len(p.running), keptRunning)
	}
	// A lease of the same id is another one.
	first, second := held("again", "again.py", 4096), held("again", "again.py", 4096)
	watch(p, first, 3000, fewSamples)
	p.Ended(second, gpu.Opt[gpu.Watts]{}, noon.Add(time.Minute))
	if e, _ := p.Find(Key{User: "ada", Name: "again.py"}); e.Peak() != 0 {
		t.Errorf("it used %v, which is what the one before it did", e.Peak())
	}
}

func TestDrew(t *testing.T) {
	p := New()
	key := Key{User: "ada", Name: "train.py"}
	if p.Drew(key).Known() {
		t.Error("a program that never ran drew something")
	}
	for _, watts := range []gpu.Opt[gpu.Watts]{gpu.Some(gpu.Watts(200)), {}, gpu.Some(gpu.Watts(400))} {
		p.Add(key, Run{Drew: watts}, noon)
	}
	if got := p.Drew(key); got != gpu.Some(gpu.Watts(300)) {
		t.Errorf("it drew %v W", got.Or(-1))
	}
	e := Entry{Runs: []Run{{Drew: gpu.Some(gpu.Watts(-1))}, {Drew: gpu.Some(gpu.Watts(1e6))}, {Drew: gpu.Some(gpu.Watts(5))}}}
	e.bound()
	if got := e.Drew(); got != gpu.Some(gpu.Watts(5)) {
		t.Errorf("of what nothing can draw, %v W are left", got.Or(-1))
	}
}

// What a lease used so far is known before it ends.
func TestMostSoFar(t *testing.T) {
	p := New()
	train := held("train", "train.py", 4096)
	if most, samples := p.Most(train.Fence); most != 0 || samples != 0 {
		t.Errorf("before it was measured: %v in %d samples", most, samples)
	}
	p.Use(train, "GPU-a", 900, gpu.Opt[gpu.Percent]{}, noon)
	p.Use(train, "GPU-b", 300, gpu.Opt[gpu.Percent]{}, noon)
	p.Use(train, "GPU-a", 100, gpu.Opt[gpu.Percent]{}, noon.Add(time.Second))
	if most, samples := p.Most(train.Fence); most != 900 || samples != 3 {
		t.Errorf("%v in %d samples", most, samples)
	}
	p.Ended(train, gpu.Opt[gpu.Watts]{}, noon)
	if most, _ := p.Most(train.Fence); most != 0 {
		t.Errorf("%v after its end", most)
	}
	if got := []gpu.MiB{WithMargin(100), WithMargin(10240)}; got[0] != 384 || got[1] != 11264 {
		t.Errorf("with a margin: %v", got)
	}
}

// What was measured of a lease is known while it stands and a moment after it has ended.
func TestUsed(t *testing.T) {
	p := New()
	l := held("7", "train", 1000)
	for i, load := range []gpu.Opt[gpu.Percent]{gpu.Some(gpu.Percent(20)), {}, gpu.Some(gpu.Percent(60))} {
		p.Use(l, "GPU-a", gpu.MiB(100*(i+1)), load, second(i))
	}
	p.Use(l, "GPU-a", 900, gpu.Some(gpu.Percent(100)), second(2)) // seen already
	want := Used{Peak: 300, Load: gpu.Some(gpu.Percent(40)), Samples: 3}
	if got := p.Used(l.Fence); got != want {
		t.Errorf("while it stands: %+v, want %+v", got, want)
	}
	p.Ended(l, gpu.Opt[gpu.Watts]{}, second(3))
	if got := p.Used(l.Fence); got != want {
		t.Errorf("after it has ended: %+v, want %+v", got, want)
	}
	for i := range keptGone {
		other := held(string(rune('A'+i)), "other", 10)
		other.Fence = l.Fence + uint64(i) + 1
		p.Use(other, "GPU-a", 1, gpu.Opt[gpu.Percent]{}, second(4))
		p.Ended(other, gpu.Opt[gpu.Watts]{}, second(5))
	}
	if got := p.Used(l.Fence); got != (Used{}) || len(p.gone) != keptGone {
		t.Errorf("after many others: %+v, %d kept", got, len(p.gone))
	}
}

// Whoever takes and returns leases, without using them, hides nothing of what others used.
func TestLeasesThatNoSampleSawTakeNoPlace(t *testing.T) {
	p := New()
	l := held("7", "train", 4096)
	watch(p, l, 3000, fewSamples)
	p.Ended(l, gpu.Opt[gpu.Watts]{}, second(4))
	for range keptGone {
		p.Ended(held("short", "short", 1), gpu.Opt[gpu.Watts]{}, second(4))
	}
	if got := p.Used(l.Fence); got.Peak != 3000 {
		t.Errorf("of the lease that was measured, %+v is known", got)
	}
}

// A lease that has ended is measured no more, whatever comes late, and what an earlier daemon
// left of one that has ended since is forgotten.
func TestEndedLeasesAreNotRemembered(t *testing.T) {
	p := New()
	l, stands := held("a", "a.py", 4096), held("b", "b.py", 4096)
	watch(p, stands, 1000, fewSamples)
	p.Stands = func(asked *lease.Lease) bool { return asked != l }
	p.Ended(l, gpu.Opt[gpu.Watts]{}, noon)
	watch(p, l, 1000, fewSamples)
	if most, samples := p.Most(l.Fence); most != 0 || samples != 0 {
		t.Errorf("it is measured with %v after its end", most)
	}
	p.Recall([]*lease.Lease{l})
	if most, _ := p.Most(stands.Fence); most != 0 {
		t.Errorf("one that does not stand is remembered with %v", most)
	}
}
