package sim

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
	processes "github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

var _ processes.Simulated = (*Backend)(nil)

// Started returns the start of a scripted process, in clock ticks since the boot of this
// machine, and false if it does not run now.
func (b *Backend) Started(pid int) (start uint64, runs bool) {
	now := b.elapsed()
	for _, c := range b.cards {
		if _, r := c.find(pid, now); r != nil {
			return b.ticks(r.start), true
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

// find returns the control group that the file of a guest names, or the empty string, and
// a scripted process on a card, or nil.
func (c *card) find(pid int, now time.Duration) (cgroup string, scripted *running) {
	if c.script.lost(now) {
		return "", nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.script.processes(now, c.fates) {
		if r.pid == pid {
			scripted = &r
		}
	}
	return c.guests.cgroup(pid), scripted
}

// End ends a scripted process on all devices, until the script starts it again.
func (b *Backend) End(pid int) {
	now := b.elapsed()
	for _, c := range b.cards {
		c.mu.Lock()
		if !c.script.lost(now) {
			c.advance(now) // it has worked until now
		}
		c.fates[pid] = fate{ended: gpu.Some(now)}
		c.mu.Unlock()
	}
}

// Facts returns the facts of a scripted process: its user, its control group, and its
// name, which is its program. For a guest it returns the control group that its file
// names.
func (b *Backend) Facts(pid int) (kinship.Facts, bool) {
	now := b.elapsed()
	for _, c := range b.cards {
		cgroup, r := c.find(pid, now)
		switch {
		case cgroup != "":
			return kinship.Facts{Cgroups: []string{cgroup}}, true
		case r != nil && r.cgroup != "":
			return kinship.Facts{UID: r.uid, Programs: kinship.Programs(r.name), Cgroups: []string{r.cgroup}}, true
		case r != nil:
			return kinship.Facts{UID: r.uid, Programs: kinship.Programs(r.name)}, true
		}
	}
	return kinship.Facts{}, false
}
