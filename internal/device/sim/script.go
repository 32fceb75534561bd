package sim

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/device/move"
)

// never is later than anything.
const never = time.Duration(math.MaxInt64)

// script lists the events of one device. The entries in force at a moment depend on the
// moment alone, so there is nothing to replay and nothing to forget: of the entries that
// set the same thing, the one that began last counts.
type script []*entry

// entry is one line of a script. It may set several things.
type entry struct {
	at    time.Duration
	lasts time.Duration // 0 means until a later entry says otherwise
	every time.Duration // 0 means once
	ramp  time.Duration // for load

	load    gpu.Opt[float64] // 0 to 1
	ambient gpu.Opt[float64]
	cooling gpu.Opt[float64]
	limit   gpu.Opt[float64] // power limit from outside, in watts
	process *process
	hang    bool
	lost    bool
	faults  []fault
	check   *checkup // result of a check
}

// process is a simulated process.
type process struct {
	pid    int
	name   string
	memory float64 // MiB at the start
	growth float64 // MiB per second
	load   float64 // 0 to 1, on top of the rest

	uid    access.UID // unknown if it runs as nobody
	cgroup string     // path of its control group; empty means the root
}

// fault is a fault that the driver will report.
type fault struct {
	gpu.Fault
	pid    int // the process that caused it; 0 if none
	detail map[string]any
	ecc    memoryKind // empty if it is no memory error
	count  int64      // number of memory errors
}

// memoryKind says how a memory error ended.
type memoryKind string

const (
	corrected   memoryKind = "corrected"
	uncorrected memoryKind = "uncorrected"
)

// began returns when the entry last began, and whether it still holds at t.
func (e *entry) began(t time.Duration) (time.Duration, bool) {
	if t < e.at {
		return 0, false
	}
	start := e.at
	if e.every > 0 {
		start = t - (t-e.at)%e.every
	}
	return start, e.lasts == 0 || t-start < e.lasts
}

// times counts how often the entry has begun by t.
func (e *entry) times(t time.Duration) int64 {
	switch {
	case t < e.at:
		return 0
	case e.every == 0:
		return 1
	}
	return int64((t-e.at)/e.every) + 1
}

// nextStart returns the first time after t at which the entry begins.
func (e *entry) nextStart(t time.Duration) time.Duration {
	switch {
	case t < e.at:
		return e.at
	case e.every == 0:
		return never
	}
	return t - (t-e.at)%e.every + e.every
}

// nextChange returns the first moment after t at which the entry or its ramp begins or
// ends.
func (e *entry) nextChange(t time.Duration) time.Duration {
	next := e.nextStart(t)
	start, active := e.began(t)
	if active && e.lasts > 0 {
		next = min(next, start+e.lasts)
	}
	if active && t-start < e.ramp {
		next = min(next, start+e.ramp)
	}
	return next
}

// latest returns the entry in force at t among those for which concerns is true, and when
// it began. It returns nil if there is none.
func (s script) latest(t time.Duration, concerns func(*entry) bool) (*entry, time.Duration) {
	var found *entry
	var since time.Duration
	for _, e := range s {
		if !concerns(e) {
			continue
		}
		if start, active := e.began(t); active && (found == nil || start >= since) {
			found, since = e, start
		}
	}
	return found, since
}

func setsLoad(e *entry) bool    { return e.load.Known() }
func setsAmbient(e *entry) bool { return e.ambient.Known() }
func setsCooling(e *entry) bool { return e.cooling.Known() }
func setsLimit(e *entry) bool   { return e.limit.Known() }
func setsHang(e *entry) bool    { return e.hang }
func setsLost(e *entry) bool    { return e.lost }

// drive returns the influences on the device from t on, and until when they hold.
func (s script) drive(t time.Duration, m *model, fates map[int]fate) (drive, time.Duration) {
	d := drive{ambient: m.Ambient, cooling: 1, cap: m.Power.Cap}
	if e, _ := s.latest(t, setsAmbient); e != nil {
		d.ambient = e.ambient.Or(0)
	}
	if e, _ := s.latest(t, setsCooling); e != nil {
		d.cooling = e.cooling.Or(1)
	}
	if e, since := s.latest(t, setsLimit); e != nil {
		d.cap, d.capped = e.limit.Or(0), since
	}
	until := never
	for _, e := range s {
		until = min(until, e.nextChange(t))
	}
	if lost, _ := s.latest(t, setsLost); lost != nil {
		return d, until
	}
	load, ramping := s.load(t)
	if ramping {
		until = min(until, t-t%tick+tick)
	}
	for _, r := range s.processes(t, fates) {
		load += r.load
	}
	d.load = min(1, load)
	return d, until
}

// load returns the load without processes. On a ramp it is the load in the middle of the
// tick around t. A ramp begins at the target of the entry before it.
func (s script) load(t time.Duration) (load float64, ramping bool) {
	e, start := s.latest(t, setsLoad)
	if e == nil {
		return 0, false
	}
	target := e.load.Or(0)
	if t-start >= e.ramp {
		return target, false
	}
	from := 0.0
	if before, _ := s.latest(start-1, setsLoad); before != nil {
		from = before.load.Or(0)
	}
	done := float64(t-t%tick+tick/2-start) / float64(e.ramp)
	return from + (target-from)*min(1, max(0, done)), true
}

// running is a running process.
type running struct {
	pid    int
	name   string
	memory gpu.MiB
	load   float64
	start  time.Duration // of a scripted one, in simulated time

	uid    access.UID // of a scripted one
	cgroup string

	born     uint64    // of a guest: when it started, in ticks since boot
	refuses  move.Step // the step that a guest refuses; empty if none
	imported gpu.MiB   // memory of other processes that a guest has opened
	parking  parking
}

// fate is an influence on a scripted process from outside of the script.
type fate struct {
	ended   gpu.Opt[time.Duration] // when it was ended
	of      time.Duration          // start of the process that parking is about
	parking parking
}

// processes returns the processes in force at t, by pid, without those that were ended.
func (s script) processes(t time.Duration, fates map[int]fate) []running {
	type begun struct {
		*process
		start time.Duration
	}
	var latest map[int]begun
	for _, e := range s {
		if e.process == nil {
			continue
		}
		if latest == nil {
			latest = map[int]begun{}
		}
		start, active := e.began(t)
		if before, ok := latest[e.process.pid]; active && (!ok || start >= before.start) {
			latest[e.process.pid] = begun{e.process, start}
		}
	}
	var list []running
	for _, p := range latest {
		fate := fates[p.pid]
		if end, was := fate.ended.Get(); was && p.start <= end && end <= t {
			continue
		}
		memory := gpu.MiB(min(p.memory+p.growth*(t-p.start).Seconds(), maxMemory))
		now := running{pid: p.pid, name: p.name, memory: memory, load: p.load, start: p.start, uid: p.uid, cgroup: p.cgroup}
		if fate.of == p.start {
			now.hold(fate.parking)
		}
		list = append(list, now)
	}
	return byPID(list)
}

// byPID sorts processes, and keeps the first of those that share a pid.
func byPID(list []running) []running {
	slices.SortStableFunc(list, func(a, b running) int { return cmp.Compare(a.pid, b.pid) })
	return slices.CompactFunc(list, func(a, b running) bool { return a.pid == b.pid })
}

// maxMemory keeps memory that grows for years from overflowing.
const maxMemory = 1 << 40

// hungUntil returns when a hang that is in force at t ends.
func (s script) hungUntil(t time.Duration) (time.Duration, bool) {
	e, start := s.latest(t, setsHang)
	switch {
	case e == nil:
		return 0, false
	case e.lasts == 0:
		return never, true
	}
	return start + e.lasts, true
}

// lost reports whether the device is off the bus at t.
func (s script) lost(t time.Duration) bool {
	e, _ := s.latest(t, setsLost)
	return e != nil
}

// memoryErrors counts the memory errors of one kind until t.
func (s script) memoryErrors(t time.Duration, kind memoryKind) int64 {
	var total int64
	for _, e := range s {
		for _, f := range e.faults {
			if f.ecc == kind {
				total += f.count * e.times(t)
			}
		}
	}
	return total
}

// nextFault returns the first moment after t at which the driver reports something.
func (s script) nextFault(t time.Duration) time.Duration {
	next := never
	for _, e := range s {
		if len(e.faults) > 0 {
			next = min(next, e.nextStart(t))
		}
	}
	return next
}

// faultsAt returns the faults at exactly t.
func (s script) faultsAt(t time.Duration) []fault {
	var list []fault
	for _, e := range s {
		if len(e.faults) > 0 && e.nextStart(t-1) == t {
			list = append(list, e.faults...)
		}
	}
	return list
}

// waves returns the script of a device without a script: idle, with some light work now
// and then, so that a first look shows some activity. Every device has its own rhythm,
// always the same one. The load stays low enough for the best state, and no process takes
// memory.
func waves(index int) script {
	shift := time.Duration(index%8) * time.Second
	share := float64(index%4) * 0.03
	wave := func(at, lasts, every time.Duration, load float64) *entry {
		return &entry{at: at, lasts: lasts, every: every, ramp: lasts / 4, load: gpu.Some(load)}
	}
	return script{
		wave(5*time.Second+4*shift, 40*time.Second, 97*time.Second+3*shift, 0.18+share),
		wave(35*time.Second+7*shift, 20*time.Second, 151*time.Second+5*shift, 0.35-share),
	}
}
