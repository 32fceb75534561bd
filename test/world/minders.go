package world

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/minder"
	"github.com/berth-gpu/berth/internal/process/runs"
	"github.com/berth-gpu/berth/internal/when"
)

// mindedRun is what is on disk of a run, and which process has it.
type mindedRun struct {
	record  runs.Record
	minder  process.ID
	program process.ID // zero until it has started
}

// minders starts the minders of one daemon. It is a daemon.Minders.
type minders struct {
	l    *Life
	kind string // jobs or services
}

func (m *minders) key(run string) string { return m.kind + "/" + run }

// Start implements run.Minders.
func (m *minders) Start(_ context.Context, run string, _ runs.Limits) (id process.ID, err error) {
	w := m.l.w
	err = m.l.do("start a minder", func() error {
		if w.one(60) {
			return errors.New("fork: no memory")
		}
		id = w.processes.begin(proc{uid: 0, parent: 1, name: "berth-serve"})
		go w.mind(m.key(run), run, id)
		return nil
	})
	return id, err
}

// Read implements run.Minders.
func (m *minders) Read(run string) (record runs.Record, alive bool, err error) {
	w := m.l.w
	if m.l.dead() {
		return runs.Record{}, false, errKilled
	}
	if w.one(200) {
		return runs.Record{}, false, errors.New("too many open files")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.minded[m.key(run)]
	if r == nil {
		return runs.Record{}, false, nil
	}
	return r.record, w.processes.runs(r.minder), nil
}

// Remove implements run.Minders.
func (m *minders) Remove(run string) error {
	return m.l.do("remove a record", func() error {
		w := m.l.w
		w.mu.Lock()
		r := w.minded[m.key(run)]
		w.mu.Unlock()
		if r == nil {
			return nil
		}
		if w.processes.runs(r.minder) {
			return errors.New("its minder lives")
		}
		for _, id := range w.processes.of(r.record.Lease, r.record.Fence, r.record.UID) {
			w.processes.end(id, process.Kill)
		}
		w.mu.Lock()
		delete(w.minded, m.key(run))
		w.mu.Unlock()
		return nil
	})
}

// Kill implements run.Minders.
func (m *minders) Kill(id process.ID) error {
	return m.l.do("kill a minder", func() error {
		if !m.l.w.processes.runs(id) {
			return process.ErrGone
		}
		m.l.w.processes.end(id, process.Kill)
		return nil
	})
}

// List implements run.Minders.
func (m *minders) List() (names []string, err error) {
	w := m.l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(w.minded)) {
		if run, is := strings.CutPrefix(key, m.kind+"/"); is {
			names = append(names, run)
		}
	}
	return names, nil
}

// Watch implements run.Minders.
func (m *minders) Watch(id process.ID, ended func()) (func(), error) {
	if id == (process.ID{}) || !m.l.w.processes.runs(id) {
		return nil, process.ErrGone
	}
	t := table{m.l.w.processes, m.l}
	return t.Watch(id.PID, func(bool) { ended() }), nil
}

// Minds implements daemon.Minders.
func (m *minders) Minds(id process.ID) bool {
	w := m.l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, r := range w.minded {
		if strings.HasPrefix(key, m.kind+"/") && r.minder == id {
			return true
		}
	}
	return false
}

// Sweep implements daemon.Minders.
func (m *minders) Sweep(context.Context, time.Time) {}

// CanLimit implements desk.Logs.
func (m *minders) CanLimit() error { return nil }

// ReadLog implements desk.Logs. Programs of the world write nothing.
func (m *minders) ReadLog(ctx context.Context, r minder.Reading, until <-chan struct{}, begin func(int64), _ io.Writer) error {
	if begin != nil {
		begin(0)
	}
	if r.Follow {
		select {
		case <-until:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// of returns the processes with a lease in their environment.
func (p *processes) of(lease string, fence uint64, uid int) (list []process.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.all {
		if lease != "" && q.lease == lease && q.fence == fence && q.uid == uid {
			list = append(list, process.ID{PID: q.pid, Start: q.start})
		}
	}
	return list
}

// mind is the life of a minder, as package minder has it. It may be killed at each step.
func (w *World) mind(key, run string, id process.ID) {
	gone := func() bool {
		if w.one(150) {
			w.note("the minder of %s is killed", key)
			w.processes.end(id, process.Kill)
		}
		return !w.processes.runs(id)
	}
	w.nap(100 * time.Millisecond)
	if gone() {
		return
	}
	w.mu.Lock()
	r := w.minded[key]
	if r != nil && (w.processes.runs(r.minder) || !r.record.Started.IsZero() || !r.record.Ended.IsZero()) {
		w.mu.Unlock()
		w.processes.end(id, 0)
		return // another minder has the run
	}
	r = &mindedRun{minder: id, record: runs.Record{Version: api.MinderVersion, PID: id.PID, Start: id.Start, Boot: w.processes.Boot()}}
	w.minded[key] = r
	w.mu.Unlock()
	var order api.MinderOrder
	asks := w.client(0, id, false)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		if gone() {
			return
		}
		var err error
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		order, err = asks.MinderOrder(ctx, run)
		cancel()
		if problem := (*api.Problem)(nil); err == nil {
			break
		} else if errors.As(err, &problem) && problem.Code == "no_order" {
			w.write(r, func(to *runs.Record) { to.Ended, to.Failure = when.Now(), err.Error() })
			w.processes.end(id, 0)
			return
		}
		w.mu.Lock()
		forgotten := w.minded[key] != r
		w.mu.Unlock()
		if forgotten {
			w.processes.end(id, 0)
			return
		}
		time.Sleep(pause)
	}
	w.nap(50 * time.Millisecond)
	if gone() {
		return
	}
	w.write(r, func(to *runs.Record) {
		to.Started, to.UID, to.Lease, to.Fence, to.Output = when.Now(), order.UID, order.Lease.ID, order.Lease.Fence, "/home/x/"+order.Log
	})
	ended := make(chan process.Signal, 1)
	s := w.script(order)
	program := w.processes.begin(proc{uid: order.UID, parent: id.PID, name: "program", lease: order.Lease.ID, fence: order.Lease.Fence, deaf: s.deaf, ended: func(by process.Signal) { ended <- by }})
	w.mu.Lock()
	if r.program = program; order.Lease.Holder.Service != "" {
		w.servers[order.Lease.Holder.Service] = program
	}
	w.mu.Unlock()
	if !w.processes.with(id, func(p *proc) { p.ended = func(process.Signal) { w.endTree(program) } }) { // PDEATHSIG
		w.endTree(program)
		return
	}
	w.started(order, s)
	w.note("the command of %s begins: lease %s, process %d, for %v", key, order.Lease.ID, program.PID, s.takes)
	w.use(program, order.Lease, s)
	var by process.Signal
	select {
	case by = <-ended:
	case <-time.After(s.takes):
		w.processes.end(program, 0)
		by = <-ended
	}
	if gone() {
		return
	}
	w.nap(20 * time.Millisecond)
	w.write(r, func(to *runs.Record) {
		to.Ended = when.Now()
		if by != 0 {
			to.Exit, to.Signal = gpu.Some(128+int(by)), fmt.Sprint(by)
		} else {
			to.Exit = gpu.Some(s.exit)
		}
	})
	w.processes.with(id, func(p *proc) { p.ended = nil })
	for _, left := range w.processes.of(order.Lease.ID, order.Lease.Fence, order.UID) {
		w.processes.end(left, process.Kill)
	}
	if gone() {
		return
	}
	w.processes.end(id, 0)
}

// write writes to the record of a run.
func (w *World) write(r *mindedRun, change func(*runs.Record)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&r.record)
}

// endTree kills a process and what is below it.
func (w *World) endTree(id process.ID) {
	for _, one := range w.processes.under(id) {
		w.processes.end(one, process.Kill)
	}
}

// client returns a client that a process of a user has of whichever daemon lives, over the
// socket.
func (w *World) client(uid int, id process.ID, shaky bool) *client.Client {
	c, err := client.New(client.Options{Transport: &way{w: w, peer: peer(uid, id), shaky: shaky}, Patience: time.Minute})
	if err != nil {
		panic(err)
	}
	return c
}
