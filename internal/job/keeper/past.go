package keeper

import (
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/job"
)

// past is a job that has ended. There may be mostEnded of them, and people look at few, so
// that it is packed: it takes half the memory of a job that has not ended.
type past struct {
	number int64
	name   string
	owner  *user
	user   string // name of its owner at the submit
	size   int64  // as in kept
	over   time.Time
	exit   gpu.Opt[int]
	counts [len(endings)]int32 // of its tasks, by ending
	array  job.Array           // the numbers of its tasks

	packed
}

// packed is what a job was that has ended, as the journal has it. It never changes.
type packed struct {
	text    string   // an entry with its job.Spec, one with its setting, and those of its tasks
	setting uint32   // where the setting begins in text
	starts  []uint32 // where the entry of each task begins
	well    []bool   // whether each task is done
}

// endings are the states of a task that has ended.
var endings = [...]job.State{job.Done, job.Failed, job.Cancelled, job.TimedOut, job.Lost}

// retire packs a job that has ended. Whoever still has the job itself may look at it. The
// caller holds writing, and not mu. A job with many tasks that differ is packed beside, and
// stays as it is meanwhile: none of its tasks changes any more.
func (k *Keeper) retire(j *kept) {
	if k.jobs[j.Number] != j || j.over.IsZero() || j.retiring {
		return
	}
	p := &past{number: j.Number, name: j.Name, owner: j.owner, user: j.User, size: j.size, over: j.over}
	if j.User == j.owner.name {
		p.user = j.owner.name // the same text for all jobs
	}
	for i, s := range endings {
		p.counts[i] = int32(j.counts[s])
	}
	switch {
	case len(j.Array) > 0:
		p.array = j.Array
	case len(j.Params) > 0:
		p.array = job.Array{{First: 1, Last: len(j.tasks), Step: 1}}
	default:
		p.array = single
	}
	setting := j.setting()
	pack := func() { p.exit, p.packed = job.Exit(j.task, len(j.tasks)), packJob(j.Spec, setting, j.tasks) }
	differ := 0
	for i, t := range j.tasks {
		if i == 0 || t != j.tasks[i-1] {
			differ++
		}
	}
	if differ <= mostEntries || k.stopped() {
		pack()
		k.shelve(j, p)
		return
	}
	j.retiring = true
	k.busy.Go(func() {
		pack()
		k.writing.Lock()
		defer k.writing.Unlock()
		k.shelve(j, p)
	})
}

// shelve keeps a job packed from now on. The caller holds writing.
func (k *Keeper) shelve(j *kept, p *past) {
	k.mu.Lock()
	k.unwait(j)
	delete(k.jobs, p.number)
	k.past[p.number] = p
	k.ended = append(k.ended, p)
	k.endedSum += len(p.starts)
	p.owner.ended += len(p.starts)
	k.mu.Unlock()
	if k.endedSum > max(k.tidyAt, mostEnded) {
		k.runs.Set(&k.tidying, time.Now(), tidies{})
	}
}

// packJob packs a job. Tasks that follow each other and are the same have one entry.
func packJob(spec *job.Spec, s *setting, all []*job.Task) packed {
	b := (&entry{Submit: spec}).text()
	p := packed{setting: uint32(len(b)), starts: make([]uint32, len(all)), well: make([]bool, len(all))}
	b = append(b, (&entry{Change: s}).text()...)
	for first := 0; first < len(all); {
		last := first
		for last+1 < len(all) && all[last+1] == all[first] {
			last++
		}
		for i := first; i <= last; i++ {
			p.starts[i], p.well[i] = uint32(len(b)), all[i].State == job.Done
		}
		b = append(b, (&entry{Tasks: &tasks{Number: spec.Number, First: first, Last: last, Task: *all[first]}}).text()...)
		first = last + 1
	}
	p.text = string(b)
	return p
}

// change changes the settings of a job that has ended. The caller holds writing and mu.
func (p *past) change(s *setting) {
	text := (&entry{Change: s}).text()
	end := p.setting + uint32(len(text))
	starts := make([]uint32, len(p.starts))
	for i, start := range p.starts {
		starts[i] = start - p.starts[0] + end
	}
	p.packed = packed{p.text[:p.setting] + string(text) + p.text[p.starts[0]:], p.setting, starts, p.well}
}

// single is the number of the only task of a job.
var single = job.Array{{Step: 1}}

// ending returns how the job has ended, or one of its tasks, and when the job has. It does
// not read the job, which may be large: others may wait for many of its tasks.
func (p *past) ending(r job.Ref) (job.Ending, time.Time) {
	well := int(p.counts[0]) == len(p.starts) // of job.Done
	if r.One {
		index, known := p.array.Index(r.Task)
		if !known {
			return job.Badly, time.Time{}
		}
		well = p.well[index]
	}
	if well {
		return job.Well, p.over
	}
	return job.Badly, p.over
}

// open returns the job as it is now, for those who read it. It takes 10 to 20 µs, and some ms if it is
// as large as it may be.
func (p *past) open() *kept {
	now := *p
	j := &kept{Spec: p.spec(), owner: p.owner, size: p.size, over: p.over, past: &now, counts: map[job.State]int{}}
	j.apply(p.entry(p.setting, p.starts[0]).Change)
	for i, n := range p.counts {
		if n > 0 {
			j.counts[endings[i]] = int(n)
		}
	}
	return j
}

func (p *packed) spec() *job.Spec { return p.entry(0, p.setting).Submit }

// task returns a task.
func (p *packed) task(index int) *job.Task {
	from := p.starts[index]
	return &p.entry(from, p.end(from)).Tasks.Task
}

// end returns where the entry of a task ends that begins at from.
func (p *packed) end(from uint32) uint32 {
	if next, _ := slices.BinarySearch(p.starts, from+1); next < len(p.starts) {
		return p.starts[next]
	}
	return uint32(len(p.text))
}

// entry reads the entry at a place.
func (p *packed) entry(from, to uint32) (e entry) {
	if err := e.read([]byte(p.text[from:to])); err != nil {
		panic("keeper: a job that has ended cannot be read: " + err.Error()) // text wrote it
	}
	return e
}

// entries yields the entries as the journal keeps them.
func (p *packed) entries(yield func([]byte) bool) bool {
	for from, to := uint32(0), p.setting; from < uint32(len(p.text)); from = to {
		switch from {
		case 0:
		case p.setting:
			to = p.starts[0]
		default:
			to = p.end(from)
		}
		if !yield([]byte(p.text[from:to])) {
			return false
		}
	}
	return true
}

// in reports whether a task of the job is in one of these states. No state means any.
func (p *past) in(states []string) bool {
	for i, n := range p.counts {
		if n > 0 && slices.Contains(states, string(endings[i])) {
			return true
		}
	}
	return len(states) == 0
}
