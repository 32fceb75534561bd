package ledger

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// crowd is what one user can make large: leases of launchers, and what the launchers have
// left on the devices.
type crowd struct {
	*Ledger
	devices   int
	launchers []process.ID
	sample    []gpu.Process // of each device
}

const (
	firstLauncher = 6_000_000
	firstWorker   = 7_000_000
)

// newCrowd makes a crowd: each launcher has leases on all devices, and has left workers
// there, which are known by their environment. Nobody watches the launchers.
func newCrowd(t tester, devices, launchers, leases, workers int) *crowd {
	t.Helper()
	w := newWorld()
	w.cast = cast{}
	for n := range launchers {
		w.cast[firstLauncher+n] = runs(1, "sh")
	}
	l, err := Open(Options{Settings: w.settings, Processes: process.Proc().With(w.cast), CPUs: 4, Open: w.open})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	c := &crowd{Ledger: l, devices: devices}
	for n := range launchers {
		id := process.ID{PID: firstLauncher + n, Start: 1}
		c.launchers = append(c.launchers, id)
		for i := range leases {
			granted := c.grant(t, fmt.Sprintf("a-%d-%d", n, i), id)
			for j := 0; i == 0 && j < workers; j++ {
				pid := firstWorker + n*workers + j
				w.cast[pid] = kinship.Facts{UID: access.KnownUID(1), Programs: []string{"python3"}, Origin: kinship.Origin{Lease: granted.ID, Fence: granted.Fence, UID: 1}}
				c.sample = append(c.sample, gpu.Process{PID: pid, Memory: gpu.Some(gpu.MiB(1))})
			}
		}
	}
	c.observe()
	return c
}

// grant gives a process a lease on all devices.
func (c *crowd) grant(t tester, name string, id process.ID) *lease.Lease {
	t.Helper()
	h := user(1)
	h.PID, h.Start, h.Boot = id.PID, id.Start, c.boot
	granted := &lease.Lease{ID: name, Holder: h, Binding: lease.ByProcess, Terms: lease.Terms{EnforcedBy: "none"}}
	for i := range c.devices {
		granted.Parts = append(granted.Parts, lease.Part{GPU: dev(i), Memory: 1})
	}
	if c.Ledger.devices[dev(0)] == nil {
		c.observe()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.apply(lease.Grant{Lease: granted}, time.Now()); err != nil {
		t.Fatal(err)
	}
	return granted
}

// observe shows the ledger a sample of each device.
func (c *crowd) observe() {
	for i := range c.devices {
		c.Observe(placement.Observation{
			Device: gpu.Device{UUID: dev(i), Index: i, Name: "Simulated", Vendor: gpu.Simulated, MemoryTotal: 1 << 20},
			Sample: &gpu.Sample{GPU: dev(i), MemoryUsed: gpu.Some(gpu.MiB(len(c.sample))), Processes: c.sample},
			State:  gpu.Optimal, Health: gpu.Healthy,
		})
	}
}

// outlive ends all launchers. Their workers keep the leases.
func (c *crowd) outlive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range c.launchers {
		c.holders.releaseIfUnused(id, time.Now())
	}
}

// together does something for each lease, with calls that are worked on together.
func (c *crowd) together(do func(held *lease.Lease, now time.Time) error) {
	var batch []*call
	for _, held := range c.book.Leases() {
		batch = append(batch, &call{do: func(now time.Time) error { return do(held, now) }})
	}
	if err := c.attempt(batch, nil); err != nil {
		panic(err)
	}
	for _, e := range batch {
		if e.err != nil {
			panic(e.err)
		}
	}
}

// allocated returns how much memory something takes.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// What one user has made large is looked at once: four times as much takes about four times
// the memory, and not sixteen times.
func TestCrowdIsLookedAtOnce(t *testing.T) {
	for name, test := range map[string]struct {
		shape func(n int) *crowd
		do    func(*crowd)
	}{
		"a list of the leases of a launcher that has ended": {
			func(n int) *crowd { c := newCrowd(t, 8, 1, n, 4); c.outlive(); return c },
			func(c *crowd) { c.View() },
		},
		"a sample, with launchers that have ended": {
			func(n int) *crowd { c := newCrowd(t, 2, n, 1, 1); c.outlive(); return c },
			func(c *crowd) { c.locked(c.holders.releaseUnused)() },
		},
		"the ends of launchers": {
			func(n int) *crowd { return newCrowd(t, 2, n, 1, 1) },
			(*crowd).outlive,
		},
		"calls that change only when leases end": {
			func(n int) *crowd { c := newCrowd(t, 2, 1, n, 4); c.outlive(); return c },
			func(c *crowd) {
				c.together(func(held *lease.Lease, now time.Time) error {
					_, err := c.apply(lease.Cancel{Key: held.Key(), By: access.Daemon()}, now)
					return err
				})
			},
		},
		"a batch of grants and releases": {
			func(n int) *crowd { c := newCrowd(t, 2, 1, n, 4); c.outlive(); return c },
			func(c *crowd) {
				c.together(func(held *lease.Lease, now time.Time) error {
					more := *held
					more.ID = "more"
					_, err := c.apply(lease.Grant{Lease: &more}, now)
					if err == nil {
						_, err = c.apply(lease.Release{Key: more.Key(), By: access.Daemon()}, now)
					}
					return err
				})
			},
		},
	} {
		few, many := test.shape(100), test.shape(400)
		if a, b := allocated(func() { test.do(few) }), allocated(func() { test.do(many) }); b > 7*a {
			t.Errorf("%s takes %d bytes for 100, and %d for 400", name, a, b)
		}
		kept := 0
		for _, held := range many.View().Leases {
			if held.KeptBy != 0 {
				kept++
			}
		}
		if kept != 400 {
			t.Errorf("%s: %d leases are kept by other processes", name, kept)
		}
	}
}

// The processes of the machine are read once for a launcher, however many parts it has.
func TestFamilyReadsTheMachineOnce(t *testing.T) {
	c := newCrowd(t, 2, 1, 1, 4)
	launcher := c.only("a-0-0")
	few := allocated(func() { c.Family(launcher, 1) })
	for i := range 200 {
		part := c.grant(t, fmt.Sprintf("part-%d", i), c.launchers[0])
		c.locked(func() {
			_, err := c.apply(lease.Release{Key: part.Key(), By: access.Daemon()}, time.Now())
			if part.Parent = launcher.ID; err == nil {
				_, err = c.apply(lease.Grant{Lease: part}, time.Now())
			}
			if err != nil {
				t.Error(err)
			}
		})()
	}
	if many := allocated(func() { c.Family(launcher, 1) }); many > 20*few {
		t.Errorf("it takes %d bytes without parts, and %d with 200", few, many)
	}
}

// took reports how long something takes at least: others use the machine too.
func took(b *testing.B, what string, do func()) {
	least := time.Hour
	for range 10 {
		began := time.Now()
		do()
		least = min(least, time.Since(began))
	}
	b.ReportMetric(float64(least.Microseconds()), what+"-µs")
}

// locked does something as the seat does.
func (c *crowd) locked(do func()) func() {
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		do()
	}
}

// How long the ledger is locked for what one user has made large.
func BenchmarkCrowd(b *testing.B) {
	for _, shape := range []struct{ devices, launchers, leases, workers int }{
		{8, 1, 500, 30}, {8, 1, 1000, 30}, {8, 500, 1, 1}, {8, 1000, 1, 1}, {1, 1000, 1, 1},
	} {
		b.Run(fmt.Sprintf("%d-devices-%d-launchers-%d-leases", shape.devices, shape.launchers, shape.leases), func(b *testing.B) {
			c := newCrowd(b, shape.devices, shape.launchers, shape.leases, shape.workers)
			for b.Loop() {
				began := time.Now()
				c.outlive()
				b.ReportMetric(float64(time.Since(began).Microseconds()), "all-exits-µs")
				took(b, "view", func() { c.View() })
				took(b, "samples", c.observe)
				took(b, "processes", func() { c.Processes(dev(0)) })
				took(b, "attribute", c.locked(func() { c.attribute(c.Ledger.devices[dev(0)]) }))
				took(b, "unused", c.locked(c.holders.releaseUnused))
				took(b, "grant", func() {
					l := c.grant(b, "more", c.launchers[0])
					c.locked(func() {
						_, _ = c.apply(lease.Release{Key: l.Key(), By: access.Daemon()}, time.Now())
						c.recharge()
					})()
				})
				took(b, "belonging", func() { c.Belonging() })
				took(b, "queue", func() { c.Queue() })
			}
		})
	}
}
