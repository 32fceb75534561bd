package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/enforce/park"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/file/journal/filelog"
	"github.com/berth-gpu/berth/internal/file/journal/filelog/disktest"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// crowd is a ledger in this process with what one user has made large. It has read the
// leases from its journal, and the processes that hold them have ended.
type crowd struct {
	*ledger.Ledger
	devices int
	leases  []*lease.Lease
	facts   map[int]kinship.Facts // of processes on the devices, by pid
	sample  []gpu.Process         // of each device
	stop    func() error
}

const (
	user          = 1000
	firstLauncher = 6_000_000 // these pids are simulated ones
	firstWorker   = 7_000_000
)

func (c *crowd) Started(pid int) (uint64, bool)           { _, runs := c.facts[pid]; return 1, runs }
func (c *crowd) End(int)                                  {}
func (c *crowd) Facts(pid int) (f kinship.Facts, is bool) { f, is = c.facts[pid]; return f, is }

// add adds a lease of a process on all devices.
func (c *crowd) add(id string, pid int, boot string, change ...func(*lease.Lease)) *lease.Lease {
	l := &lease.Lease{
		ID: id, Fence: uint64(len(c.leases) + 1), State: lease.Active, Granted: time.Now(), Binding: lease.ByProcess, Terms: lease.Terms{EnforcedBy: "none"},
		Holder: lease.Holder{User: "user", UID: user, PID: pid, Start: 1, Boot: boot},
	}
	for i := range c.devices {
		l.Parts = append(l.Parts, lease.Part{GPU: fmt.Sprint("GPU-", i), Memory: 1})
	}
	for _, f := range change {
		f(l)
	}
	c.leases = append(c.leases, l)
	return l
}

// work puts a process on the devices that was started under a lease.
func (c *crowd) work(l *lease.Lease) {
	pid := firstWorker + len(c.sample)
	c.facts[pid] = kinship.Facts{UID: access.KnownUID(user), Programs: []string{"python3"}, Origin: kinship.Origin{Lease: l.ID, Fence: l.Fence, UID: user}}
	c.sample = append(c.sample, gpu.Process{PID: pid, Memory: gpu.Some(gpu.MiB(1))})
}

// observe shows the ledger a sample of each device.
func (c *crowd) observe(sample []gpu.Process) {
	for i := range c.devices {
		uuid := fmt.Sprint("GPU-", i)
		c.Observe(placement.Observation{
			Device: gpu.Device{UUID: uuid, Index: i, Name: "Simulated", Vendor: gpu.Simulated, MemoryTotal: 1 << 20},
			Sample: &gpu.Sample{GPU: uuid, MemoryUsed: gpu.Some(gpu.MiB(len(sample))), Processes: sample},
			State:  gpu.Optimal, Health: gpu.Healthy,
		})
	}
}

// newCrowd starts a ledger whose journal has what fill adds.
func newCrowd(devices int, fill func(c *crowd, boot string)) (*crowd, error) {
	c := &crowd{devices: devices, facts: map[int]kinship.Facts{}}
	table := process.Proc().With(c)
	boot, err := table.Boot()
	if err != nil {
		return nil, err
	}
	fill(c, boot)
	c.Ledger, err = ledger.Open(ledger.Options{
		Processes: table, CPUs: 4,
		Settings: quota.Settings{Device: func(string) quota.DeviceSettings { return quota.DeviceSettings{MaxPipelines: 8} }, Wait: time.Minute},
		Open: func(replay func(journal.Entry) error) (journal.Journal, error) {
			for entry := range lease.EntriesOf(c.leases) {
				if err := replay(journal.Entry{Data: lease.AppendEntry(nil, &entry)}); err != nil {
					return nil, err
				}
			}
			log, _, err := filelog.Open(disktest.New(), filelog.Options{Segment: 8 << 20}, replay)
			return log, err
		},
	})
	if err != nil {
		return nil, err
	}
	c.observe(c.sample)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	c.stop = func() error { cancel(); return <-done }
	return c, c.until(func() bool {
		_, err := c.Renew(ctx, lease.Name{ID: "nobody"}, 0, 0, access.Daemon(), nil)
		return err != nil
	})
}

// until waits until something has happened.
func (c *crowd) until(happened func() bool) error {
	for began := time.Now(); !happened(); time.Sleep(time.Millisecond) {
		if time.Since(began) > 5*time.Minute {
			return fmt.Errorf("%d leases: nothing happens any more", len(c.leases))
		}
	}
	return nil
}

// costs returns what something costs this process each time.
func (g *ground) costs(do func()) time.Duration {
	do() // warms everything up
	before, began, times := used(), time.Now(), 0
	for ; times < 3 || time.Since(began) < g.each; times++ {
		do()
	}
	return (used() - before) / time.Duration(times)
}

// mostOfUser is how many leases one user may have.
const mostOfUser = 1000

// crowds measures a shape of a crowd with more and more in it.
func (g *ground) crowds(measure func(s *site, n int) error) ([]curve, error) {
	s, part := &site{ground: g}, *g
	part.most = min(g.most, mostOfUser)
	for _, n := range part.sizes() {
		if err := measure(s, n); err != nil {
			return nil, err
		}
	}
	return s.curves, nil
}

func launchers(_ context.Context, g *ground) ([]curve, error) {
	return g.crowds(func(s *site, n int) error {
		began := used()
		c, err := newCrowd(2, func(c *crowd, boot string) {
			for i := range n {
				c.work(c.add(fmt.Sprint("lease-", i), firstLauncher+i, boot))
			}
		})
		if err != nil {
			return err
		}
		s.add("a start, with launchers that have ended", whole, float64(n), used()-began)
		s.add("a list of all leases", whole, float64(n), g.costs(func() { c.View() }))
		s.add("a sample of each device", whole, float64(n), g.costs(func() { c.observe(c.sample) }))
		before := used()
		c.observe([]gpu.Process{}) // nil: nobody knows
		err = c.until(func() bool { left, _ := c.Len(); return left == 0 })
		s.add("their ends", whole, float64(n), used()-before)
		if err != nil {
			return err
		}
		return c.stop()
	})
}

func held(_ context.Context, g *ground) ([]curve, error) {
	return g.crowds(func(s *site, n int) error {
		began := used()
		c, err := newCrowd(8, func(c *crowd, boot string) {
			for i := range n {
				if l := c.add(fmt.Sprint("lease-", i), firstLauncher, boot); i == 0 {
					for range 30 {
						c.work(l)
					}
				}
			}
		})
		if err != nil {
			return err
		}
		s.add("a start, with a launcher that has ended", whole, float64(n), used()-began)
		s.add("a list of all leases", whole, float64(n), g.costs(func() { c.View() }))
		s.add("a sample of each device", whole, float64(n), g.costs(func() { c.observe(c.sample) }))
		return c.stop()
	})
}

func parts(_ context.Context, g *ground) ([]curve, error) {
	return g.crowds(func(s *site, n int) error {
		var launcher *lease.Lease
		c, err := newCrowd(1, func(c *crowd, boot string) {
			launcher = c.add("launcher", firstLauncher, boot)
			c.work(launcher)
			for i := range n {
				c.work(c.add(fmt.Sprint("part-", i), firstLauncher+1+i, boot, func(l *lease.Lease) { l.Parent = launcher.ID }))
			}
		})
		if err != nil {
			return err
		}
		s.add("the members of the launcher", whole, float64(n), g.costs(func() { c.Family(launcher.Key(), launcher.Fence) }))
		return c.stop()
	})
}

func parked(ctx context.Context, g *ground) ([]curve, error) {
	return g.crowds(func(s *site, n int) error {
		c, err := newCrowd(1, func(c *crowd, boot string) {
			c.add("stays", 0, "", func(l *lease.Lease) { l.Binding, l.Parts[0].Memory = lease.ByName, 1<<20-64 })
			for i := range n {
				c.add(fmt.Sprint("lease-", i), 0, "", func(l *lease.Lease) {
					l.Binding, l.State, l.ParkedAt, l.Parts[0].Memory = lease.ByName, lease.Parked, time.Now(), 1000
				})
			}
		})
		if err != nil {
			return err
		}
		waiting, leave := context.WithCancel(ctx)
		var group sync.WaitGroup
		for _, l := range c.leases[1:] {
			group.Go(func() {
				_, _ = c.Return(waiting, l.Key(), l.Fence, access.Daemon(), "its turn", time.Now(), gpu.Opt[time.Duration]{})
			})
		}
		err = c.until(func() bool { _, waits := c.Len(); return waits == n })
		s.add("a look at the queue, for all of them", whole, float64(n), g.costs(func() {
			pressure := c.Queue()
			turns := park.NewYielding(time.Now(), pressure)
			for _, l := range c.leases[1:] {
				turns.Yields(placement.Holding{Fence: l.Fence, GPU: l.Parts[0].GPU, Since: time.Now()})
			}
		}))
		leave()
		group.Wait()
		if err != nil {
			return err
		}
		return c.stop()
	})
}
