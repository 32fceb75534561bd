package pace

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/process"
)

// FileName is the name of the pacer's file in the state folder.
const FileName = "paced.json"

// kept is the content of the file: the shares that people set, and the processes that the
// pacer may have stopped. A process is in it before it is stopped, and no longer than its
// lease is paced: the next daemon continues what is in it, and who else has stopped a
// process, to park it or by hand, had a reason.
type kept struct {
	Boot      string       `json:"boot"`
	Holds     []Hold       `json:"holds,omitempty"`
	Processes []process.ID `json:"processes,omitempty"`
}

func newState(path string) *file.State[kept] {
	return file.NewState[kept](path, file.StateOptions{
		What: "what is paced", Version: 1, Bare: true,
		Lost: "Shares that people set do not hold any more. If an earlier daemon was killed together with its guardian, processes may be stopped: kill -CONT continues them.",
	})
}

// check returns an error if something is wrong with the file.
func (k *kept) check() error {
	if k.Boot == "" {
		return errors.New("it does not say which boot it is of")
	}
	return nil
}

// take takes over the state of an earlier daemon. It returns an error if something is
// wrong with the file.
func (p *Pacer) take(k kept) error {
	if err := k.check(); err != nil {
		return err
	}
	if k.Boot == p.Boot {
		if n := p.resume(k.Processes); n > 0 {
			p.Log.Warn("an earlier daemon was killed together with its guardian: what it had stopped runs again", "processes", n)
		}
		for _, id := range p.owed {
			p.stopped[id] = 0
		}
	}
	for _, h := range k.Holds {
		held := p.Leases.Lease(h.Key, h.Fence)
		if held == nil || never(held) != "" {
			continue // what stands in the way of others may pass, and their cycles wait for that
		}
		if p.leases[h.Fence] == nil {
			p.leases[h.Fence] = newPaced(h)
		}
		p.leases[h.Fence].hold(h)
	}
	if len(k.Processes) > 0 || len(k.Holds) > len(p.leases) {
		_ = p.rewrite(true)
	}
	return nil
}

// Left returns how many processes a daemon has left stopped that was killed together with
// its guardian, according to the file at path. The next daemon continues them.
func Left(path, boot string) (processes int, err error) {
	var k kept
	err = newState(path).Read(func(read kept) error {
		k = read
		return k.check()
	})
	if err != nil || k.Boot != boot {
		return 0, err
	}
	table := process.Proc()
	for _, id := range k.Processes {
		if c, err := table.Control(id); err == nil && c.Stopped && c.Tracer == 0 {
			processes++
		}
	}
	return processes, nil
}

// remember writes to the file that processes are about to be stopped for a lease. If it
// fails, they must not be stopped.
func (p *Pacer) remember(fence uint64, ids []process.ID) error {
	p.mu.Lock()
	some, ended := slices.ContainsFunc(ids, func(id process.ID) bool { return p.stopped[id] != fence }), slices.Collect(maps.Keys(p.stopped))
	p.mu.Unlock()
	if !some {
		return nil
	}
	ended = slices.DeleteFunc(ended, func(id process.ID) bool { return !p.table.Ended(id) }) // without the lock: one lease may have many processes
	p.mu.Lock()
	for _, id := range ended {
		delete(p.stopped, id)
	}
	p.mu.Unlock()
	return p.write(false, kept{Processes: ids}, func() {
		for _, id := range ids {
			p.stopped[id] = fence
		}
	})
}

// drop takes the processes out of the file that were stopped for a lease, and run now. Only
// those that could not be continued stay in it.
func (p *Pacer) drop(fence uint64) error {
	p.mu.Lock()
	before := len(p.stopped)
	maps.DeleteFunc(p.stopped, func(id process.ID, of uint64) bool {
		return (of == fence || of == 0) && !slices.Contains(p.owed, id)
	})
	is := len(p.stopped) == before && !p.stale
	p.mu.Unlock()
	if is {
		return nil
	}
	return p.rewrite(false)
}

// rewrite writes the file. If that fails, write reports it, and Run tries again.
func (p *Pacer) rewrite(durable bool) error {
	err := p.write(durable, kept{}, nil)
	if err != nil {
		p.file.Change(0)
	}
	return err
}

// write writes the file, with more than what holds now. If that succeeds, it calls done,
// which may be nil, with mu held, to add that. The caller does not hold mu:
// everybody's pauses need it, and a disk may take its time. The shares that people set have
// to survive a power loss, and so does their end, for which a caller says durable; processes
// do not survive it.
func (p *Pacer) write(durable bool, more kept, done func()) error {
	p.saving.Lock()
	defer p.saving.Unlock()
	p.mu.Lock()
	all := slices.AppendSeq(slices.Clone(more.Processes), maps.Keys(p.stopped))
	k := kept{Boot: p.Boot, Holds: more.Holds}
	for _, l := range p.leases {
		k.Holds = append(k.Holds, slices.DeleteFunc(l.byHand(), func(h Hold) bool {
			return slices.ContainsFunc(more.Holds, func(o Hold) bool { return o.Fence == h.Fence && o.Source == h.Source })
		})...)
	}
	p.mu.Unlock()
	slices.SortFunc(all, func(a, b process.ID) int { return cmp.Or(a.PID-b.PID, cmp.Compare(a.Start, b.Start)) })
	k.Processes = slices.Compact(all)
	slices.SortFunc(k.Holds, func(a, b Hold) int { return int(a.Fence) - int(b.Fence) })
	save := p.file.SaveUnsynced
	if durable || len(k.Holds) > 0 {
		save = p.file.Save
	}
	err := save(k)
	if err != nil {
		p.Log.Warn("what is paced cannot be written down", "file", p.Path, "error", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stale = err != nil; !p.stale && done != nil {
		done()
	}
	return err
}
