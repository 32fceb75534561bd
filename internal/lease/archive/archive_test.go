package archive

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// ended is the end of a lease of a user, n seconds after noon.
func ended(user string, n int) *lease.Effect {
	l := &lease.Lease{
		ID: fmt.Sprintf("%s-%d", user, n), Fence: uint64(n), Holder: lease.Holder{User: user, UID: 1000, Service: "embedder", Name: "serve.py", PID: 7},
		Binding: lease.ByProcess, Granted: noon, Parts: []lease.Part{{GPU: "GPU-a", Memory: 4096, Slots: 1}},
	}
	return &lease.Effect{Kind: lease.Released, Time: noon.Add(time.Duration(n) * time.Second), Before: l, By: access.Actor{User: user}, Why: "its process has ended"}
}

func TestThePastSurvivesARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "past.json")
	synctest.Test(t, func(t *testing.T) {
		a, damage := Open(path)
		if damage != nil {
			t.Fatal(damage)
		}
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() { over <- a.Run(ctx) }()
		a.Ended(ended("anna", 1), 3000, gpu.Opt[gpu.Joules]{})
		a.Ended(ended("bob", 2), 0, gpu.Opt[gpu.Joules]{})
		time.Sleep(writeAfter)
		synctest.Wait() // it is written while the daemon runs
		killed, damage := Open(path)
		if damage != nil {
			t.Fatal(damage)
		}
		if diff := cmp.Diff(a.All(), killed.All(), cmp.AllowUnexported(gpu.Opt[gpu.Joules]{})); diff != "" || len(killed.All()) != 2 {
			t.Errorf("after kill -9 (-want +got):\n%s", diff)
		}
		a.Ended(ended("anna", 3), 0, gpu.Some(gpu.Joules(90)))
		cancel()
		if err := <-over; err != nil {
			t.Fatal(err)
		}
		again, damage := Open(path)
		if damage != nil {
			t.Fatal(damage)
		}
		if diff := cmp.Diff(a.All(), again.All(), cmp.AllowUnexported(gpu.Opt[gpu.Joules]{})); diff != "" {
			t.Errorf("after a stop (-want +got):\n%s", diff)
		}
		newest := again.All()[0]
		want := Past{
			ID: "anna-3", Fence: 3, User: "anna", UID: 1000, Service: "embedder", Name: "serve.py", Binding: lease.ByProcess,
			Granted: noon, Ended: noon.Add(3 * time.Second), How: lease.Released, Why: "its process has ended", By: "anna",
			Parts: []Part{{"GPU-a", 4096, 1}}, Energy: gpu.Some(gpu.Joules(90)),
		}
		if diff := cmp.Diff(want, newest, cmp.AllowUnexported(gpu.Opt[gpu.Joules]{})); diff != "" {
			t.Errorf("the newest (-want +got):\n%s", diff)
		}
	})
}

// A daemon that was killed has not written the newest ends. The journal has them, each is
// remembered once, and those that the archive has forgotten stay so.
func TestTheJournalHasTheNewestEnds(t *testing.T) {
	for name, c := range map[string]struct {
		written, kept int // how many ends are in the file, and of which the archive remembers the newest
		from          int // the first end in the journal
		want          []string
	}{
		"killed":       {2, 2, 1, []string{"anna-4", "anna-3", "anna-2", "anna-1"}},
		"all written":  {4, 4, 1, []string{"anna-4", "anna-3", "anna-2", "anna-1"}},
		"forgotten":    {3, 1, 1, []string{"anna-4", "anna-3"}},
		"compacted":    {2, 2, 4, []string{"anna-4", "anna-2", "anna-1"}},
		"nothing kept": {0, 0, 1, []string{"anna-4", "anna-3", "anna-2", "anna-1"}},
	} {
		path := filepath.Join(t.TempDir(), "past.json")
		written, _ := Open(path)
		for n := c.written - c.kept + 1; n <= c.written; n++ {
			written.Ended(ended("anna", n), 0, gpu.Opt[gpu.Joules]{})
		}
		if err := written.write(); err != nil {
			t.Fatal(err)
		}
		a, damage := Open(path)
		if damage != nil {
			t.Fatal(damage)
		}
		for n := c.from; n <= 4; n++ {
			e := ended("anna", n)
			a.Replay(&lease.Effect{Kind: lease.Granted, Time: noon, After: e.Before})
			a.Replay(e)
		}
		a.Recall()
		var got []string
		for _, past := range a.All() {
			got = append(got, past.ID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: it remembers %v, want %v", name, got, c.want)
		}
	}
	// The fences of a journal that begins anew are those of other leases.
	path := filepath.Join(t.TempDir(), "past.json")
	a, _ := Open(path)
	a.Ended(ended("anna", 1), 0, gpu.Opt[gpu.Joules]{})
	if err := a.write(); err != nil {
		t.Fatal(err)
	}
	a, _ = Open(path)
	other := ended("bob", 1)
	other.Time = noon.Add(time.Hour)
	a.Replay(other)
	a.Recall()
	if all := a.All(); len(all) != 2 || all[0].User != "bob" || all[0].Why != other.Why || all[0].By != "bob" {
		t.Errorf("it remembers %+v", all)
	}
}

func TestThePastIsBounded(t *testing.T) {
	a := New()
	a.Ended(ended("anna", 0), 0, gpu.Opt[gpu.Joules]{})
	for i := range 3 * most {
		a.Ended(ended("mallory", i+1), 0, gpu.Opt[gpu.Joules]{})
	}
	count := func() map[string]int {
		n := map[string]int{}
		for _, past := range a.All() {
			n[past.User]++
		}
		return n
	}
	if diff := cmp.Diff(map[string]int{"anna": 1, "mallory": mostPerUser}, count()); diff != "" {
		t.Errorf("a user who leases without end (-want +got):\n%s", diff)
	}
	if newest := a.All()[0].ID; newest != fmt.Sprintf("mallory-%d", 3*most) {
		t.Errorf("the newest is %s", newest)
	}
	for i := range most {
		a.Ended(ended(fmt.Sprintf("user%d", i), i), 0, gpu.Opt[gpu.Joules]{})
	}
	if n := count(); len(a.All()) != most || n["mallory"] > 1 || n["anna"] > 1 {
		t.Errorf("%d leases are remembered, %d of mallory", len(a.All()), n["mallory"])
	}
}

func TestAFileThatCannotBeReadIsPutAside(t *testing.T) {
	for name, text := range map[string]string{"torn": `{"version":1,"leas`, "newer": `{"version":2,"leases":[]}`} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		a, damage := Open(path)
		if damage == nil || len(a.All()) != 0 {
			t.Fatalf("%s: %v", name, damage)
		}
		if kept, err := os.ReadFile(damage.Aside); err != nil || string(kept) != text {
			t.Errorf("%s: %q %v", name, kept, err)
		}
	}
}
