package sim

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	processes "github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

var _ processes.Simulated = (*Backend)(nil)

// Started returns the start of a scripted process, in clock ticks since the boot of this
// machine, and false if it does not run now.
func (b *Backend) Started(pid int) (start uint64, runs bool) {
	now := b.elapsed()
	for _, c := range b.cards {
		if since, runs := c.since(pid, now); runs {
			return b.ticks(since), true
		}
	}
	return 0, false
}

// ticks returns a moment of simulated time in clock ticks since the boot of this
// machine.
func (b *Backend) ticks(t time.Duration) uint64 {
	return b.booted + uint64(b.wall(t).Sub(b.start)/tickLength)
}

// tickLength is the unit of process start times in Linux.
const tickLength = 10 * time.Millisecond

// since returns the start of a scripted process on a card, in simulated time.
func (c *card) since(pid int, now time.Duration) (time.Duration, bool) {
	if c.script.lost(now) {
		return 0, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.script.processes(now, c.fates) {
		if r.pid == pid {
			return r.start, true
		}
	}
	return 0, false
}

// End ends a scripted process on all devices, until the script starts it again.
func (b *Backend) End(pid int) {
	now := b.elapsed()
	for _, c := range b.cards {
		c.mu.Lock()
		if !c.script.lost(now) {
			c.advance(now) // it has worked until now
		}
		c.setFate(pid, fate{ended: gpu.Some(now)})
		c.mu.Unlock()
	}
}

// setFate records the fate of a scripted process. The caller holds mu.
func (c *card) setFate(pid int, f fate) {
	if c.fates == nil {
		c.fates = map[int]fate{}
	}
	c.fates[pid] = f
}

// Facts returns the facts of a scripted process: its user, its control group, and its
// name, which is its program. For a guest it returns the control group that its file
// names.
func (b *Backend) Facts(pid int) (kinship.Facts, bool) {
	now := b.elapsed()
	for _, c := range b.cards {
		if f, says := c.facts(pid, now); says {
			return f, true
		}
	}
	return kinship.Facts{}, false
}

func (c *card) facts(pid int, now time.Duration) (kinship.Facts, bool) {
	if c.script.lost(now) {
		return kinship.Facts{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if cgroup := c.guests.cgroup(pid); cgroup != "" {
		return kinship.Facts{Cgroups: []string{cgroup}}, true
	}
	for _, r := range c.script.processes(now, c.fates) {
		if r.pid != pid {
			continue
		}
		f := kinship.Facts{Programs: kinship.Programs(r.name)}
		if uid, known := r.uid.Get(); known {
			f.UID = access.KnownUID(uid)
		}
		if r.cgroup != "" {
			f.Cgroups = []string{r.cgroup}
		}
		return f, true
	}
	return kinship.Facts{}, false
}
