package ledger

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process"
)

func (k *keeper) expect(left, leased, overuse, foreign gpu.MiB) {
	k.t.Helper()
	s := k.Sum(dev(0))
	if s.Available() != left || s.Leased != leased || s.Overuse != overuse || s.Foreign != foreign {
		k.t.Errorf("%s are left, with %s leased, %s over that and %s foreign; want %s, %s, %s, %s",
			s.Available(), s.Leased, s.Overuse, s.Foreign, left, leased, overuse, foreign)
	}
}

func TestMemoryUnderNoLeaseCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		stranger := child(t).Process.Pid
		k.device(0, 100, used(stranger, 30), func(o *placement.Observation) {
			o.Sample.MemoryUsed = gpu.Some(gpu.MiB(35)) // the driver has some too
		})
		k.expect(65, 0, 0, 35)
		if got := k.Foreign(dev(0)); !slices.Equal(got, []int{stranger}) {
			t.Errorf("processes %v are foreign, want %v", got, stranger)
		}
		k.refused(want("a", 70))
		waits := k.queue(t.Context(), want("a", 70, wait(time.Hour)))
		k.device(0, 100, used(stranger, 25))
		if d := <-waits; d.err != nil {
			t.Error(d.err)
		}
		k.device(0, 100, used(stranger, 60)) // more than there is room for
		k.expect(-30, 70, 0, 60)
		k.device(0, 100, func(o *placement.Observation) { o.Sample = nil }) // no answer: what was known stands
		k.expect(-30, 70, 0, 60)
		k.device(0, 100, used(stranger, 10), used(stranger, 10), func(o *placement.Observation) {
			o.Sample.MemoryUsed = gpu.Opt[gpu.MiB]{} // a device that does not tell
		})
		k.expect(10, 70, 0, 20)
	})
}

// A driver that does not tell the sum for once frees no memory.
func TestMemoryCountsWhileItsSumIsNotKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		sum := func(of gpu.Opt[gpu.MiB]) func(*placement.Observation) {
			return func(o *placement.Observation) { o.Sample.MemoryUsed = of }
		}
		stranger := child(t).Process.Pid
		k.device(0, 100, used(stranger, 10), sum(gpu.Some(gpu.MiB(40))))
		k.expect(60, 0, 0, 40)
		k.device(0, 100, used(stranger, 20), sum(gpu.Opt[gpu.MiB]{}))
		k.expect(50, 0, 0, 50)
		k.device(0, 100, sum(gpu.Opt[gpu.MiB]{}))
		k.expect(70, 0, 0, 30)
		k.refused(want("a", 80))
		k.device(0, 100, sum(gpu.Some(gpu.MiB(5))))
		k.expect(95, 0, 0, 5)
	})
}

// A request that fits now is not refused as one that never fits, also where processes that do
// not tell their memory hide how little the driver uses.
func TestWhatFitsNowFitsAtSomeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		sum := func(of gpu.MiB) func(*placement.Observation) {
			return func(o *placement.Observation) { o.Sample.MemoryUsed = gpu.Some(of) }
		}
		k.device(1, 100)
		k.grant(want("full", 100, at(dev(1))))
		k.queue(t.Context(), want("waits", 50, at(dev(1)), wait(time.Hour)))
		k.device(0, 100, sum(40))
		k.device(0, 100, used(child(t).Process.Pid, 0), sum(10), func(o *placement.Observation) { o.Sample.Processes[0].Memory = gpu.Opt[gpu.MiB]{} })
		k.grant(want("a", 80, at(dev(0))))
		k.give("a", 1)
		k.grant(exact("b", []lease.Part{{GPU: dev(0), Memory: 80}}))
		k.give("b", 1)
		k.grant(want("grows", 30, at(dev(0))))
		k.grant(want("short", 20, at(dev(0)), timed(time.Hour)))
		k.queue(t.Context(), want("ahead", 55, at(dev(0)), of(2), wait(time.Hour)))
		resize := (*placement.ResizeError)(nil)
		if _, err := k.Resize(t.Context(), byID("grows"), 0, 61, by(1), nil, 0); !errors.As(err, &resize) || !resize.Ever {
			t.Errorf("to grow into what is free is refused with %v", err)
		}
	})
}

func TestUseBeyondTheLeaseCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		pid := child(t).Process.Pid
		k.device(0, 100)
		k.grant(want("a", 30, k.held(pid)))
		k.device(0, 100, used(pid, 20))
		k.expect(70, 30, 0, 0)
		k.device(0, 100, used(pid, 50))
		k.expect(50, 30, 20, 0)
		held, _ := k.Find(k.only("a"))
		if held.Measured[0] != gpu.Some(gpu.MiB(50)) || len(k.Foreign(dev(0))) != 0 {
			t.Errorf("the lease was measured to use %v, and %v are foreign", held.Measured, k.Foreign(dev(0)))
		}
		// A second lease of the same process takes what is over the first.
		k.grant(want("b", 25, k.held(pid)))
		k.expect(45, 55, 0, 0)
		k.device(0, 100, used(pid, 60))
		k.expect(40, 55, 5, 0)
		// The end of one leaves its use to the other, at once.
		k.give("a", 1)
		k.expect(40, 25, 35, 0)
	})
}

func TestDescendantsBelongToTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		grandchild := child(t).Process.Pid
		k.device(0, 100)
		k.grant(want("a", 30, k.held(os.Getpid()))) // its parent
		k.device(0, 100, used(grandchild, 20))
		k.expect(70, 30, 0, 0)
		k.grant(want("b", 10, k.held(grandchild))) // it is nearer
		k.expect(50, 40, 10, 0)
	})
}

// What is in use does not go away because the lease over it does.
func TestMemoryInUseIsNotSoldWhenItsLeaseEnds(t *testing.T) {
	for how, end := range map[string]func(*keeper){
		"released": func(k *keeper) { k.give("a", 1) },
		"revoked":  func(k *keeper) { _ = k.Revoke(k.t.Context(), k.only("a"), 0, "for a test", nil) },
		"expired":  func(k *keeper) { time.Sleep(time.Hour); synctest.Wait() },
	} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newWorld().start(t)
				pid := child(t).Process.Pid
				k.device(0, 100)
				k.grant(want("a", 60, k.held(pid), ttl(time.Hour)))
				k.device(0, 100, used(pid, 50))
				end(k)
				k.expect(50, 0, 0, 50)
				k.refused(want("b", 60))
				// A new lease of the same name and process has nothing of the old.
				k.grant(want("a", 30, k.held(pid)))
				k.expect(50, 30, 20, 0)
				k.device(0, 100)
				k.expect(70, 30, 0, 0)
			})
		})
	}
}

// family starts a process with a child; both live until they are killed.
func family(t *testing.T) (parent *exec.Cmd, offspring int) {
	t.Helper()
	parent = exec.Command("sh", "-c", "cat <&3 >/dev/null & echo $!; wait")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	parent.ExtraFiles = []*os.File{read}
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _, _ = parent.Process.Kill(), parent.Wait(), write.Close() // the child ends with its input
	})
	_ = read.Close()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	offspring, err = strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return parent, offspring
}

// A child that is seen again after its parent has gone is still the lease's.
func TestKinshipIsRemembered(t *testing.T) {
	parent, offspring := family(t)
	now := time.Now()
	on := []gpu.Process{{PID: offspring, Memory: gpu.Some(gpu.MiB(1))}}
	c := census{Table: process.Proc()}
	before, _ := c.used(on, now)
	kill(t, parent)
	after, _ := c.used(on, now.Add(time.Hour)) // seen at last
	if len(before) != 1 || len(after) != 1 || !slices.Equal(before[0].Ancestry, after[0].Ancestry) || after[0].Ancestry[1].PID != parent.Process.Pid {
		t.Errorf("its line was %v and is %v", before, after)
	}
	c.used(nil, now.Add(2*time.Hour))
	if n := c.memory.Len(); n != 0 {
		t.Errorf("%d processes are remembered that have been gone for long", n)
	}
}

func TestAdopt(t *testing.T) {
	w := newWorld()
	w.settings.Services = map[string]quota.Served{"s": {Service: quota.Service{Name: "s", Users: []string{"somebody"}, MinMemory: 90}}}
	k := w.start(t)
	stranger, second := child(t), child(t)
	k.device(0, 100, used(stranger.Process.Pid, 70), used(second.Process.Pid, 40)) // more than there is
	adopt := func(id string, cmd *exec.Cmd, change ...func(*Adoption)) (*lease.Lease, error) {
		id2, err := k.census.Identify(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		a := Adoption{ID: id, Holder: lease.Holder{User: "user1", UID: 1, PID: id2.PID, Start: id2.Start, Boot: k.boot}}
		for _, c := range change {
			c(&a)
		}
		return k.Adopt(t.Context(), a)
	}
	l, err := adopt("a", stranger)
	if err != nil || !slices.Equal(l.Parts, []lease.Part{{GPU: dev(0), Memory: 70}}) || l.Binding != lease.ByProcess {
		t.Fatalf("Adopt = %+v, %v", l, err)
	}
	k.expect(-10, 70, 0, 40)

	if _, err := adopt("a", second); !errors.Is(err, lease.ErrDuplicate) {
		t.Errorf("under an id in use: %v", err)
	}
	if _, err := adopt("b", stranger); !errors.Is(err, ErrCovered) || !strings.Contains(err.Error(), ": a, on "+dev(0)) {
		t.Errorf("twice: %v", err)
	}
	if _, err := adopt("b", second, func(a *Adoption) { a.Holder.Service = "s" }); !errors.Is(err, quota.ErrUser) {
		t.Errorf("for a service of others: %v", err)
	}
	noFit := (*placement.NoFitError)(nil)
	if _, err := adopt("b", second, func(a *Adoption) { a.Memory = 41 }); !errors.As(err, &noFit) {
		t.Errorf("for more than it uses and there is: %v", err)
	}
	if _, err := adopt("b", child(t)); !errors.Is(err, ErrNotSeen) {
		t.Errorf("a process that uses nothing: %v", err)
	}
	k.expect(-10, 70, 0, 40)

	kill(t, stranger)
	k.told(gpu.EventReleased, "a")
	k.expect(60, 0, 0, 40)

	// Beyond what it uses, it does not go before those who wait.
	waits := k.queue(t.Context(), want("big", 90, wait(time.Hour)))
	if _, err := adopt("b", second, func(a *Adoption) { a.Memory = 60 }); !errors.As(err, new(*placement.QueuedError)) {
		t.Errorf("before those who wait: %v", err)
	}
	if _, err := adopt("b", second, func(a *Adoption) { a.Memory = 50 }); err != nil {
		t.Errorf("where nobody is delayed: %v", err)
	}
	k.expect(50, 50, 0, 0)
	k.give("b", 1) // before it was measured under the lease
	k.expect(60, 0, 0, 40)
	kill(t, second)
	k.device(0, 100)
	if d := <-waits; d.err != nil {
		t.Error(d.err)
	}
}

// What is adopted may grow a little, if there is room for that.
func TestAdoptLeavesAMargin(t *testing.T) {
	for name, test := range map[string]struct{ used, leased gpu.MiB }{
		"a little":        {1000, 1256},
		"a tenth":         {6000, 6600},
		"without room":    {9000, 9000},
		"more than there": {11000, 11000},
	} {
		t.Run(name, func(t *testing.T) {
			k := newWorld().start(t)
			pid := child(t).Process.Pid
			k.device(0, 9500, used(pid, test.used))
			holder, err := k.HolderOf(pid, access.Daemon(), lease.Holder{})
			if err != nil {
				t.Fatal(err)
			}
			l, err := k.Adopt(t.Context(), Adoption{ID: "a", Holder: holder})
			if err != nil || l.Parts[0].Memory != test.leased || strings.Contains(l.Note, "no room") != (test.leased == test.used) || l.Note == "" {
				t.Errorf("Adopt = %+v, %v", l, err)
			}
		})
	}
}

// Revoking what these hold would end the daemon: here that is the test.
// The quota of a service is for all devices together.
func TestAdoptGrowsWithinTheQuota(t *testing.T) {
	for name, test := range map[string]struct{ quota, asked, first, second gpu.MiB }{
		"margins for both":      {2512, 0, 1256, 1256},
		"a margin for one":      {2511, 0, 1256, 1000},
		"over the quota now":    {1500, 0, 1000, 1000},
		"as much as is allowed": {3000, 1500, 1500, 1500},
		"more":                  {2999, 1500, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.settings.Services = map[string]quota.Served{"s": {Service: quota.Service{Name: "s", Quota: lease.Usage{Memory: test.quota}}}}
			k := w.start(t)
			pid := child(t).Process.Pid
			k.device(0, 9500, used(pid, 1000))
			k.device(1, 9500, used(pid, 1000))
			holder, err := k.HolderOf(pid, access.Daemon(), lease.Holder{Service: "s"})
			if err != nil {
				t.Fatal(err)
			}
			l, err := k.Adopt(t.Context(), Adoption{ID: "a", Holder: holder, Memory: test.asked})
			if test.first == 0 {
				if !errors.Is(err, quota.ErrQuota) {
					t.Errorf("Adopt = %+v, %v", l, err)
				}
				return
			}
			if err != nil || l.Parts[0].Memory != test.first || l.Parts[1].Memory != test.second {
				t.Errorf("Adopt = %+v, %v", l, err)
			}
		})
	}
}

func TestNeitherTheDaemonNorItsAncestorsAreAdopted(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 100, used(os.Getpid(), 10))
	for _, pid := range []int{os.Getpid(), os.Getppid(), 1} {
		holder, err := k.HolderOf(pid, access.Daemon(), lease.Holder{})
		if err == nil {
			_, err = k.Adopt(t.Context(), Adoption{ID: "a", Holder: holder, GPU: dev(0), Memory: 5})
		}
		if !errors.Is(err, ErrNoHolder) {
			t.Errorf("process %d: %v", pid, err)
		}
	}
}

func TestStatesOfADevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Device = func(string) quota.DeviceSettings { return quota.DeviceSettings{MaxPipelines: 5} }
		k := w.start(t)
		k.device(0, 100)
		k.grant(want("a", 10, slots(3)))
		for _, test := range []struct {
			name   string
			change func(*placement.Observation)
			usable int
			memory bool // whether memory alone is granted
			code   placement.Code
		}{
			{"optimal", inState(gpu.Optimal), 5, true, ""},
			{"normal", inState(gpu.Normal), 4, true, ""},
			{"throttled", inState(gpu.Throttled), 2, true, placement.NoSlot},
			{"critical", inState(gpu.Critical), 0, false, placement.BadState},
			{"unavailable", inState(gpu.Unavailable), 0, false, placement.Closed},
			{"above temp_critical", func(o *placement.Observation) { o.State, o.Stop, o.Reason = gpu.Throttled, true, "91 °C" }, 0, false, placement.Closed},
		} {
			k.device(0, 100, test.change)
			if sum := k.Sum(dev(0)); sum.Usable != test.usable || sum.Active != 3 || (sum.Closed == "") != test.memory {
				t.Errorf("%s: %d slots are usable, %d in use, closed %q", test.name, sum.Usable, sum.Active, sum.Closed)
			}
			for id, r := range map[string]lease.Request{"slot": want("slot", 0, slots(1)), "memory": want("memory", 1)} {
				granted, err := k.Acquire(t.Context(), r)
				if fits := id == "memory" && test.memory || test.usable > 3; fits != (err == nil) {
					t.Errorf("%s: %s was answered with %v", test.name, id, err)
				}
				noFit := (*placement.NoFitError)(nil)
				if errors.As(err, &noFit) && (noFit.Reasons[0].Code != test.code || !noFit.Ever) {
					t.Errorf("%s: %s was refused for %+v", test.name, id, noFit.Reasons)
				}
				if granted != nil {
					k.give(id, 1)
				}
			}
		}
		// What was granted stands, and what waits is served when it is well again.
		waits := k.queue(t.Context(), want("b", 10, slots(2), wait(time.Hour)))
		k.device(0, 100, inState(gpu.Optimal))
		if d := <-waits; d.err != nil {
			t.Error(d.err)
		}
	})
}

func TestDeviceThatAppearsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Services = map[string]quota.Served{"s": {Service: quota.Service{Name: "s", Together: true}}}
		k := w.start(t)
		k.device(0, 100)
		k.device(1, 100)
		k.grant(want("a", 60, at(dev(1)), service("s")))
		if err := k.refused(want("b", 1, gpus(3))); status(err) != "refused" {
			t.Error(err)
		}
		k.stop()

		// A lease may stand on a device that is not there yet.
		k = w.start(t)
		k.device(0, 100)
		if got := k.leases(); !slices.Equal(got, []string{"a"}) {
			t.Fatalf("leases are %v", got)
		}
		k.grant(want("e", 10))
		waits := k.queue(t.Context(), want("c", 100, wait(time.Hour)))
		_ = k.refused(want("d", 50, at(dev(1))))
		k.device(1, 100)
		k.device(2, 100)
		d := <-waits
		if d.err != nil {
			t.Fatal(d.err)
		}
		_ = k.refused(want("d", 50, at(dev(1))))
		near := k.grant(want("d", 40, service("s")))
		if near.Parts[0].GPU != dev(1) {
			t.Errorf("the service is put on %s, and not where it runs", near.Parts[0].GPU)
		}
	})
}

// What a sample is about are the leases that were measured, and those that berth may park
// by itself: because they say so, or because the settings of their service do.
func TestNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.start(t)
		user := child(t).Process.Pid
		k.device(0, 100)
		k.grant(want("busy", 10, k.bound(user)))
		for i := range 5 {
			k.grant(want(fmt.Sprintf("quiet-%d", i), 1))
		}
		k.grant(want("parkable", 1, func(r *lease.Request) { r.Parkable = true }))
		k.grant(want("served", 1, service("soft")))
		noted := func(want ...string) {
			t.Helper()
			var got []string
			for _, h := range k.Noted(dev(0)) {
				got = append(got, h.Lease.ID)
			}
			if !slices.Equal(got, want) {
				t.Errorf("a sample is about %q, want %q", got, want)
			}
		}
		noted("parkable")
		k.device(0, 100, used(user, 20))
		noted("busy", "parkable")
		s := w.settings
		s.Services = map[string]quota.Served{"soft": {Service: quota.Service{Name: "soft", Parkable: gpu.Some(true)}}}
		k.Configure(s)
		noted("busy", "parkable", "served")
		k.device(0, 100)
		noted("parkable", "served")
		k.expect(83, 17, 0, 0)
	})
}
