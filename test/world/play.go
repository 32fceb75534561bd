package world

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/process"
)

// operation is something that happens in the world.
type operation struct {
	name   string
	weight int
	do     func(w *World)
}

// operations are what can happen while a history is played.
var operations = []operation{
	{"exec", 20, (*World).exec},
	{"allocate", 14, (*World).allocate},
	{"pool", 5, (*World).pool},
	{"part", 6, (*World).part},
	{"submit", 16, (*World).submit},
	{"release", 12, (*World).release},
	{"cancel", 8, (*World).cancel},
	{"renew", 6, (*World).renew},
	{"resize", 6, (*World).resize},
	{"park", 7, (*World).park},
	{"resume", 5, (*World).resume},
	{"act on a job", 14, (*World).actOnJob},
	{"use a service", 18, (*World).useService},
	{"act on a service", 5, (*World).actOnService},
	{"a server dies", 3, (*World).serverDies},
	{"a pod", 5, (*World).pod},
	{"a token", 3, (*World).token},
	{"the front dies", 1, (*World).frontDies},
	{"list", 4, (*World).list},
	{"explain", 3, (*World).explain},
	{"a process ends", 10, (*World).processEnds},
	{"drain", 3, (*World).drain},
	{"optimize", 2, (*World).optimize},
	{"a device fails", 3, (*World).deviceFails},
	{"a device is hot", 2, (*World).deviceIsHot},
	{"the disk fails", 3, (*World).diskFails},
	{"the user database", 2, (*World).databaseFails},
	{"settings", 3, (*World).changeSettings},
	{"the clock", 2, (*World).setClock},
	{"kill", 8, (*World).killSoon},
	{"stop", 2, (*World).stopDaemon},
	{"reboot", 1, (*World).reboot},
	{"time", 30, (*World).letTimePass},
}

// play plays a number of operations. Each is drawn by its place in the history alone, so that
// those that are left out change nothing of what the others are.
func (w *World) play(n int, leftOut map[int]bool) {
	total := 0
	for _, o := range operations {
		total += o.weight
	}
	for i := range n {
		w.mu.Lock()
		w.random = rand.New(rand.NewPCG(w.seed, uint64(i)))
		w.mu.Unlock()
		at := w.intn(total)
		for _, o := range operations {
			if at -= o.weight; at < 0 && !leftOut[i] {
				w.mu.Lock()
				w.doing = o.name
				w.played = append(w.played, fmt.Sprintf("%d %s", i, o.name))
				w.mu.Unlock()
				o.do(w)
			}
			if at < 0 {
				break
			}
		}
		w.count.operations++
		time.Sleep(w.chance(2 * time.Second))
		w.keepAlive()
		if w.count.operations%25 == 0 {
			w.look()
		}
		if w.failed() {
			return
		}
	}
}

func (w *World) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.wrongs) > 0
}

// keepAlive starts another daemon if the last one was killed.
func (w *World) keepAlive() {
	for tries := 0; ; tries++ {
		w.mu.Lock()
		l := w.now
		w.mu.Unlock()
		if l != nil && !l.dead() && l.ctx.Err() == nil {
			return
		}
		if l != nil {
			<-l.over
			w.met("a restart")
			w.effects.Lock()
			dark := w.dark
			w.dark = false
			w.effects.Unlock()
			if dark {
				w.rebooted()
			}
		}
		if tries > 20 {
			w.disk.set(func() { w.disk.full, w.disk.broken, w.disk.once = false, false, 0 })
			w.effects.Lock()
			w.killIn = 0
			w.effects.Unlock()
		}
		if tries > 40 {
			w.wrong("starts", "no daemon comes up any more")
			return
		}
		if w.begin() {
			return
		}
		time.Sleep(time.Second)
	}
}

// rebooted ends everything that runs, as a machine does that has lost its power.
func (w *World) rebooted() {
	w.count.reboots++
	w.met("a reboot")
	w.note("the machine starts again")
	w.processes.mu.Lock()
	w.processes.boot += "'"
	pids := slices.Collect(maps.Values(w.processes.all))
	w.processes.mu.Unlock()
	for _, p := range pids {
		w.processes.with(process.ID{PID: p.pid, Start: p.start}, func(p *proc) { p.watched = nil })
		w.processes.end(process.ID{PID: p.pid, Start: p.start}, process.Kill)
	}
}

// asking is one call of a caller, which is answered within its time.
func (w *World) asking(what string, most time.Duration, call func(ctx context.Context) error) error {
	w.mu.Lock()
	w.busy++
	w.mu.Unlock()
	begun := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	err := call(ctx)
	w.mu.Lock()
	w.busy--
	w.mu.Unlock()
	var problem *api.Problem
	switch {
	case errors.As(err, &problem) && problem.Status == http.StatusInternalServerError:
		w.wrong("fault", "%s: %s (%d %s)", what, problem.Detail, problem.Status, problem.Code)
	case errors.As(err, &problem):
		w.reached("refused: " + problem.Code)
	case ctx.Err() != nil && time.Since(begun) >= most:
		w.wrong("answers", "%s: no answer within %v: %v", what, most, err)
	}
	return err
}

const longCall = 3 * time.Hour

// caller starts a process of a user that asks, and returns its client.
func (w *World) caller(uid int) (process.ID, *client.Client) {
	id := w.processes.begin(proc{uid: uid, parent: 1, name: "program", cgroup: fmt.Sprintf("/user.slice/user-%d.slice/session-1.scope", uid), deaf: w.one(8)})
	return id, w.client(uid, id, w.one(4))
}

func (w *World) someone() int { return firstUID + w.intn(ordinary) }

// memory returns an amount of memory that people ask for.
func (w *World) memory() gpu.MiB {
	return []gpu.MiB{1 << 10, 4 << 10, 10 << 10, 20 << 10, 40 << 10, 70 << 10, 79 << 10, 100 << 10}[w.intn(8)]
}

// request makes a request for a lease.
func (w *World) request() api.LeaseRequest {
	r := api.LeaseRequest{Memory: w.memory(), Slots: gpu.Some(w.intn(3))}
	switch w.intn(6) {
	case 0:
		r.Timeout = gpu.Some(0.0)
	case 1, 2:
		r.Timeout = gpu.Some(float64(1 + w.intn(60)))
	case 3, 4:
		r.Timeout = gpu.Some(float64(60 + w.intn(3600)))
	}
	if w.one(3) {
		r.TimeLimit = gpu.Some(float64(10 + w.intn(1800)))
	}
	if w.one(6) {
		r.GPUs = 2
	}
	if w.one(8) {
		r.GPU = gpu.Ref(fmt.Sprint(w.intn(4)))
	}
	if w.one(6) {
		r.Exclusive, r.Slots = true, gpu.Opt[int]{}
	}
	if r.GPUs < 2 && w.one(2) {
		r.Parkable, r.Unshared = true, w.one(2)
	}
	if w.one(20) {
		r.Priority = gpu.Some(w.intn(5))
	}
	return r
}

// exec runs a program under a lease that is bound to its process.
func (w *World) exec() {
	uid := w.someone()
	id, c := w.caller(uid)
	r := w.request()
	r.ID = fmt.Sprintf("exec-%d", w.count.operations)
	if w.one(4) {
		r.ID = w.id() // of somebody else's choice
	}
	r.Binding = "process"
	p := w.promise("exec", uid, r.ID, id)
	p.binding, p.limited, p.limit = "process", r.TimeLimit.Known(), time.Duration(r.TimeLimit.Or(0))*time.Second
	go func() {
		defer w.processes.end(id, 0)
		w.ask(p, func(ctx context.Context) (api.Lease, error) { return c.Acquire(ctx, r) })
		if !p.stands() {
			return
		}
		w.work(p)
		w.live(id, 20*time.Minute)
		switch w.intn(5) {
		case 0: // it just ends
		case 1:
			w.end(p, "release", func(ctx context.Context) error {
				_, err := c.Release(ctx, p.id, p.lease.Fence)
				return err
			})
		case 2:
			w.processes.end(id, process.Kill)
		case 3: // its child goes on
			w.fork(p)
		}
		p.mayEnd("its process ended")
	}()
}

// live waits until a process has ended, but not for ever.
func (w *World) live(id process.ID, most time.Duration) {
	until := time.Now().Add(w.chance(most))
	for w.processes.runs(id) && time.Now().Before(until) {
		time.Sleep(min(time.Until(until)+time.Millisecond, 5*time.Second))
	}
}

// work has a process use what it leased.
func (w *World) work(p *promise) {
	w.nap(10 * time.Second)
	if w.one(4) {
		return // it computes elsewhere
	}
	greedy := w.one(12)
	if greedy {
		p.mayEnd("it used more than it had leased")
	}
	w.processes.with(p.process, func(q *proc) {
		q.lease, q.fence = p.id, p.lease.Fence
		for _, part := range p.lease.Parts {
			if q.memory[part.GPU] = part.Memory * 3 / 4; greedy {
				q.memory[part.GPU] += 2 << 10
			}
		}
	})
}

// fork leaves a child of the process of a lease behind, which uses its memory for a while.
func (w *World) fork(p *promise) {
	var child process.ID
	memory := map[string]gpu.MiB{}
	for _, part := range p.lease.Parts {
		memory[part.GPU] = part.Memory / 2
	}
	child = w.processes.begin(proc{uid: p.uid, parent: p.process.PID, name: "worker", lease: p.id, fence: p.lease.Fence, memory: memory})
	go func() {
		w.live(child, 10*time.Minute)
		w.processes.end(child, 0)
	}()
}

// id returns one of few ids, so that they meet.
func (w *World) id() string { return string(rune('a' + w.intn(6))) }

// allocate takes memory under an id.
func (w *World) allocate() {
	uid := w.someone()
	id, c := w.caller(uid)
	r := api.Allocate{ID: w.id(), Memory: w.memory(), Parkable: w.one(3)}
	p := w.promise("allocation", uid, r.ID, id)
	switch w.intn(4) {
	case 0:
		r.Binding = "process"
	case 1:
		r.TTL = gpu.Some(float64(5 + w.intn(600)))
		p.ttl = time.Duration(r.TTL.Or(0) * float64(time.Second))
		r.Binding = "ttl"
	default:
		r.Binding = "named"
	}
	if w.one(3) {
		r.Timeout = gpu.Some(float64(w.intn(900)))
	}
	if w.one(5) {
		r.TimeLimit = gpu.Some(float64(10 + w.intn(3600)))
		p.limited, p.limit = true, time.Duration(r.TimeLimit.Or(0))*time.Second
	}
	p.binding = r.Binding
	go func() {
		defer w.processes.end(id, 0)
		w.ask(p, func(ctx context.Context) (api.Lease, error) { return c.Allocate(ctx, r) })
		if p.stands() && p.binding == "process" {
			w.work(p)
			w.live(id, 20*time.Minute)
			p.mayEnd("its process ended")
		}
	}()
}

// pool allocates a pool.
func (w *World) pool() {
	uid := w.someone()
	id, c := w.caller(uid)
	r := api.Allocate{ID: w.id(), Memory: w.memory(), Pool: true, Binding: "named"}
	if w.one(2) {
		r.Binding = "process"
	}
	p := w.promise("pool", uid, r.ID, id)
	p.binding = r.Binding
	go func() {
		defer w.processes.end(id, 0)
		w.ask(p, func(ctx context.Context) (api.Lease, error) { return c.Allocate(ctx, r) })
		if p.stands() && p.binding == "process" {
			w.live(id, 20*time.Minute)
			p.mayEnd("its process ended")
		}
	}()
}

// part leases something from a pool, or as a child of a lease.
func (w *World) part() {
	of := w.pick(func(p *promise) bool { return p.stands() })
	if of == nil {
		return
	}
	id, c := w.caller(of.uid)
	r := api.LeaseRequest{ID: fmt.Sprintf("part-%d", w.count.operations), Binding: "process", Timeout: gpu.Some(0.0)}
	if of.kind == "pool" {
		r.FromPool, r.Memory = of.id, gpu.MiB(1+w.intn(8))<<10
	} else {
		r.Parent, r.Memory, r.Slots = of.id, gpu.MiB(w.intn(3))<<10, gpu.Some(0)
		if w.one(2) {
			r.ParentFence = of.lease.Fence
		}
	}
	p := w.promise("part", of.uid, r.ID, id)
	p.binding, p.parent = "process", of
	go func() {
		defer w.processes.end(id, 0)
		w.ask(p, func(ctx context.Context) (api.Lease, error) { return c.Acquire(ctx, r) })
		if p.stands() {
			w.work(p)
			w.live(id, 10*time.Minute)
			p.mayEnd("its process ended")
		}
	}()
}

// actor returns a client for an act on somebody's lease: mostly of its owner.
func (w *World) actor(owner int) (c *client.Client, done func()) {
	uid := owner
	switch w.intn(8) {
	case 0:
		uid = olga
	case 1:
		uid = w.someone()
	}
	id, c := w.caller(uid)
	if uid != owner {
		c = c.Of(nameOf(owner))
	}
	return c, func() { w.processes.end(id, 0) }
}

func (w *World) release() {
	p := w.pick(func(p *promise) bool { return !p.over() })
	if p == nil {
		return
	}
	c, done := w.actor(p.uid)
	fence := p.fence()
	if w.one(3) {
		fence = 0
	}
	w.reached(p.kind + " × release")
	go func() {
		defer done()
		w.end(p, "release", func(ctx context.Context) error {
			_, err := c.Release(ctx, p.id, fence)
			return err
		})
	}()
}

func (w *World) cancel() {
	p := w.pick(func(p *promise) bool { return !p.over() })
	if p == nil {
		return
	}
	c, done := w.actor(p.uid)
	b := api.Cancel{}
	if w.one(2) {
		b.Fence = p.fence()
	}
	w.reached(p.kind + " × cancel")
	go func() {
		defer done()
		w.end(p, "cancel", func(ctx context.Context) error {
			_, err := c.Cancel(ctx, p.id, b)
			return err
		})
	}()
}

func (w *World) renew() {
	p := w.pick(func(p *promise) bool { return p.stands() && p.ttl > 0 })
	if p == nil {
		return
	}
	id, c := w.caller(p.uid)
	go func() {
		defer w.processes.end(id, 0)
		_ = w.asking("renew", 10*time.Minute, func(ctx context.Context) error {
			_, err := c.Renew(ctx, p.id, api.Renew{Fence: p.fence()})
			return err
		})
	}()
}

func (w *World) resize() {
	p := w.pick(func(p *promise) bool { return p.stands() })
	if p == nil {
		return
	}
	c, done := w.actor(p.uid)
	r := api.Resize{Memory: w.memory(), Fence: p.fence()}
	w.reached(p.kind + " × resize")
	go func() {
		defer done()
		_ = w.asking("resize", longCall, func(ctx context.Context) error {
			_, err := c.Resize(ctx, p.id, r)
			return err
		})
	}()
}

func (w *World) park() {
	p := w.pick(func(p *promise) bool { return p.stands() })
	if p == nil {
		return
	}
	c, done := w.actor(p.uid)
	w.reached(p.kind + " × park")
	go func() {
		defer done()
		_ = w.asking("park", longCall, func(ctx context.Context) error {
			_, err := c.Park(ctx, p.id, api.Park{})
			if err == nil {
				w.reached(p.kind + " is parked")
			}
			return err
		})
	}()
}

func (w *World) resume() {
	p := w.pick(func(p *promise) bool { return p.stands() })
	if p == nil {
		return
	}
	c, done := w.actor(p.uid)
	go func() {
		defer done()
		_ = w.asking("resume", longCall, func(ctx context.Context) error {
			_, err := c.Resume(ctx, p.id, api.Resume{Timeout: gpu.Some(float64(w.intn(600)))})
			return err
		})
	}()
}

func (w *World) list() {
	id, c := w.caller(w.someone())
	go func() {
		defer w.processes.end(id, 0)
		_ = w.asking("list leases", 10*time.Minute, func(ctx context.Context) error { _, err := c.Leases(ctx); return err })
		_ = w.asking("list jobs", 10*time.Minute, func(ctx context.Context) error { _, err := c.Jobs(ctx, client.JobQuery{}); return err })
		_ = w.asking("status", 10*time.Minute, func(ctx context.Context) error { _, err := c.StatusAllWithLeases(ctx); return err })
	}()
}

func (w *World) explain() {
	id, c := w.caller(w.someone())
	r := w.request()
	go func() {
		defer w.processes.end(id, 0)
		_ = w.asking("explain", 10*time.Minute, func(ctx context.Context) error { _, err := c.Explain(ctx, r); return err })
	}()
}

// processEnds ends a process of a lease from outside.
func (w *World) processEnds() {
	p := w.pick(func(p *promise) bool { return p.stands() && p.binding == "process" })
	if p == nil {
		return
	}
	w.reached(p.kind + " × a killed process")
	p.mayEnd("its process was killed")
	w.processes.end(p.process, process.Kill)
}

func (w *World) drain() {
	id, c := w.caller(olga)
	ref := gpu.Ref(fmt.Sprint(w.intn(4)))
	ends := w.one(2)
	go func() {
		defer w.processes.end(id, 0)
		_ = w.asking("drain", 10*time.Minute, func(ctx context.Context) error {
			if ends {
				_, err := c.Undrain(ctx, api.UndrainRequest{GPU: ref})
				return err
			}
			until := w.wall().Add(w.chance(time.Hour))
			_, err := c.Drain(ctx, api.DrainRequest{GPU: ref, Until: &until})
			return err
		})
	}()
}

func (w *World) optimize() {
	id, c := w.caller(olga)
	go func() {
		defer w.processes.end(id, 0)
		_ = w.asking("optimize", longCall, func(ctx context.Context) error { _, err := c.Optimize(ctx, api.Optimize{}); return err })
	}()
}

func (w *World) deviceFails() {
	c := w.cards[w.intn(len(w.cards))]
	wait := w.chance(5 * time.Minute)
	switch w.intn(4) {
	case 0:
		w.note("%s is lost for %v", c.about.UUID, wait)
		c.set(func() { c.lost = true })
		time.AfterFunc(wait, func() { c.set(func() { c.lost = false }) })
	case 1:
		w.note("%s hangs for %v", c.about.UUID, wait)
		w.met("a hang of its device")
		c.hang()
		time.AfterFunc(wait, c.mend)
	case 2:
		w.note("%s has a fault", c.about.UUID)
		if l := w.life(); l != nil {
			l.driver.fault(device.Fault{Fault: gpu.Fault{Name: "a memory error", Class: gpu.FaultDevice, Severity: gpu.Serious}, GPU: c.about.UUID, Time: time.Now()})
		}
	case 3:
		if l := w.life(); l != nil {
			l.driver.fault(device.Fault{Fault: gpu.Fault{Name: "a page fault", Class: gpu.FaultProgram, Severity: gpu.Warning}, GPU: c.about.UUID, Time: time.Now(), PID: firstPID + w.intn(100)})
		}
	}
}

func (c *card) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

func (c *card) hang() {
	c.set(func() {
		if c.hung == nil {
			c.hung = make(chan struct{})
		}
	})
}

// mend ends everything that is wrong with a card.
func (c *card) mend() {
	c.set(func() {
		if c.lost, c.heat, c.fails = false, 0, false; c.hung != nil {
			close(c.hung)
			c.hung = nil
		}
	})
}

func (w *World) deviceIsHot() {
	c := w.cards[w.intn(len(w.cards))]
	heat := gpu.Celsius(20 + w.intn(45))
	w.note("%s is %v hotter", c.about.UUID, heat)
	c.set(func() { c.heat = heat })
	time.AfterFunc(w.chance(10*time.Minute), func() { c.set(func() { c.heat = 0 }) })
}

func (w *World) diskFails() {
	wait := w.chance(3 * time.Minute)
	switch w.intn(3) {
	case 0:
		w.note("the disk is full for %v", wait)
		w.met("a full disk")
		w.disk.set(func() { w.disk.full = true })
	case 1:
		w.note("the disk is broken for %v", wait)
		w.met("a broken disk")
		w.disk.set(func() { w.disk.broken = true })
	case 2:
		w.note("one write is going to fail")
		once := 1 + w.intn(20)
		w.disk.set(func() { w.disk.once = once })
	}
	time.AfterFunc(wait, func() { w.disk.set(func() { w.disk.full, w.disk.broken = false, false }) })
}

func (w *World) databaseFails() {
	if w.one(2) {
		w.people.hang()
	} else {
		w.people.mu.Lock()
		w.people.broken = true
		w.people.mu.Unlock()
	}
	w.note("the user database fails")
	time.AfterFunc(w.chance(10*time.Minute), w.people.mend)
}

func (w *World) changeSettings() {
	id, c := w.caller(0)
	part := []string{
		`{"max_pipelines": 2}`, `{"max_pipelines": 4}`, `{"memory_limit_mb": 60000}`, `{"memory_limit_mb": 81920}`, `{"optimization": {"time_slice": 20}}`, `{"queue": {"unknown": "hold"}}`, `{"queue": {"unknown": "pass"}}`,
		`{"users": {"bob": {"memory_mb": 50000}}}`, `{"users": {"bob": null}}`, `{"jobs": "off"}`, `{"jobs": "on"}`,
	}[w.intn(11)]
	go func() {
		defer w.processes.end(id, 0)
		w.met("new settings")
		_ = w.asking("settings "+part, 10*time.Minute, func(ctx context.Context) error { _, err := c.SetConfig(ctx, []byte(part)); return err })
	}()
}

func (w *World) setClock() {
	by := time.Duration(w.intn(7200)-3600) * time.Second
	w.note("the clock is set by %v", by)
	w.met("a set clock")
	w.mu.Lock()
	w.offset += by
	w.mu.Unlock()
}

// killSoon kills the daemon at one of its next effects.
func (w *World) killSoon() {
	w.effects.Lock()
	defer w.effects.Unlock()
	if w.killIn == 0 {
		w.killIn = 1 + w.effectRand.IntN(60)
	}
}

// stopDaemon has the daemon stop as it is stopped by systemd.
func (w *World) stopDaemon() {
	l := w.life()
	if l == nil {
		return
	}
	w.count.restarts++
	w.note("the daemon is stopped")
	l.stop()
	<-l.over
	w.effects.Lock()
	defer w.effects.Unlock()
	if !l.dead() {
		w.root = l.root
	}
}

// reboot has the machine lose its power.
func (w *World) reboot() {
	w.effects.Lock()
	defer w.effects.Unlock()
	w.dark, w.killIn = true, 1+w.effectRand.IntN(10)
}

func (w *World) letTimePass() { time.Sleep(w.chance(2 * time.Minute)) }

// submit submits a job.
func (w *World) submit() {
	uid := w.someone()
	id, c := w.caller(uid)
	r := api.JobRequest{Command: []string{"program"}, Name: []string{"", "train", "eval"}[w.intn(3)], Lease: w.request(), Hold: w.one(8), Retry: w.intn(3) * w.intn(2)}
	r.Lease.Timeout, r.Lease.GPU = gpu.Opt[float64]{}, ""
	r.Lease.Memory = min(r.Lease.Memory, 70<<10)
	if r.Lease.TimeLimit.Known() && w.one(2) {
		r.Signal, r.Warning = "USR1", gpu.Some(float64(1+w.intn(60)))
	}
	if w.one(4) {
		r.Array = []string{"1-3", "1-8%2", "1,5,9"}[w.intn(3)]
	}
	if w.one(6) {
		r.Requeue = "machine"
	}
	if after := w.pickJob(func(p *promise) bool { return p.uid == uid && !p.over() }); after != nil && w.one(3) {
		switch w.intn(3) {
		case 0:
			r.After = []string{after.id}
		case 1:
			r.AfterAny = []string{after.id}
		case 2:
			r.AfterFailed = []string{after.id}
		}
	}
	if w.one(10) {
		begin := w.wall().Add(w.chance(time.Hour))
		r.Begin = &begin
	}
	p := w.promise("job", uid, "", id)
	p.job = true
	go func() {
		defer w.processes.end(id, 0)
		var made api.Job
		err := w.asking("submit", 10*time.Minute, func(ctx context.Context) (err error) { made, err = c.Submit(ctx, r); return err })
		p.answered(made.ID, err)
	}()
}

func (w *World) actOnJob() {
	p := w.pickJob(func(p *promise) bool { return p.stands() })
	if p == nil {
		return
	}
	c, done := w.actor(p.uid)
	act := []string{"cancel", "hold", "unhold", "redo", "priority", "show"}[w.intn(6)]
	id := p.id
	if act == "cancel" {
		p.mayEnd("it was cancelled")
	}
	if w.one(5) && act != "redo" {
		id += ".1"
	}
	w.reached("job × " + act)
	go func() {
		defer done()
		err := w.asking(act+" a job", 10*time.Minute, func(ctx context.Context) (err error) {
			switch act {
			case "cancel":
				_, err = c.CancelJob(ctx, id, "for a reason")
			case "hold":
				_, err = c.HoldJob(ctx, id)
			case "unhold":
				_, err = c.UnholdJob(ctx, id)
			case "redo":
				var again api.Job
				if again, err = c.RedoJob(ctx, id, api.JobRedo{Failed: w.one(2)}); err == nil {
					w.promise("job", p.uid, again.ID, process.ID{}).answered(again.ID, nil)
				}
			case "priority":
				_, err = c.ChangeJob(ctx, id, api.JobChange{Priority: gpu.Some(-w.intn(10))})
			case "show":
				_, err = c.Job(ctx, id)
			}
			return err
		})
		if act == "cancel" && err == nil && id == p.id {
			p.cancelled()
		}
	}()
}

// script is what a program of a job does.
type script struct {
	takes  time.Duration
	exit   int
	deaf   bool
	memory bool
}

func (w *World) script(order api.MinderOrder) script {
	if service := order.Lease.Holder.Service; service != "" { // it is one of a service, which ends when it is told to
		s := script{takes: 1000 * time.Hour, deaf: w.one(6), memory: true}
		if w.one(5) {
			s.takes, s.exit = w.chance(10*time.Minute), 1
		}
		return s
	}
	s := script{takes: w.chance(30 * time.Minute), deaf: w.one(6), memory: !w.one(4)}
	if w.one(4) {
		s.exit = 1
	}
	return s
}

// use has the program of a run use its lease.
func (w *World) use(program process.ID, l api.Lease, s script) {
	if !s.memory {
		return
	}
	w.processes.with(program, func(p *proc) {
		for _, part := range l.Parts {
			p.memory[part.GPU] = part.Memory * 3 / 4
		}
	})
}

// commands counts how often the command of a task was started.
type commands struct {
	runs map[string]int
	last script
}

// started notes that a minder has started a command, which happens once in a run.
func (w *World) started(order api.MinderOrder, s script) {
	w.mu.Lock()
	defer w.mu.Unlock()
	task, _, _ := strings.Cut(order.Run, "/")
	c := w.tasks[task]
	if c == nil {
		c = &commands{runs: map[string]int{}}
		w.tasks[task] = c
	}
	c.last = s
	if c.runs[order.Run]++; c.runs[order.Run] > 1 {
		w.found("jobs", "the command of run %s was started %d times", order.Run, c.runs[order.Run])
	}
}
