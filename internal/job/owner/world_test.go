package owner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/enforce/park"
	"github.com/berth-gpu/berth/internal/job/run"
	"github.com/berth-gpu/berth/internal/job/run/runtest"
	"github.com/berth-gpu/berth/internal/job/service"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/runs"
)

// world is what outlives a daemon: the disk, the leases, the minders with their servers,
// and the fronts.
type world struct {
	*runtest.World
	t     fataler
	rules placement.Rules // of the mover
	host  gpu.MiB         // memory of the machine for parked leases

	// Mu guards what follows.
	disk    []byte
	full    bool // the disk
	tries   int  // to write to it while it was full
	short   int  // minders that cannot start their server for want of something
	number  int64
	room    map[string]gpu.MiB // by device
	leases  map[string]*held
	wants   []*want
	servers map[int]*server // by port
	fronts  []*tfront
	specs   []service.Spec
	script  func(name string, nth int) plan
	begun   map[string]int // starts of each service
	learned map[string]gpu.MiB
	events  []gpu.Event
	unfit   map[string]bool       // services that may not be parked
	refused error                 // why nobody is granted a lease, or gets it back, or another size
	unready error                 // why no lease is handed to a minder
	lag     time.Duration         // until a request is out of the queue
	grown   func(*held)           // is called when a lease has grown, before anybody hears of it
	came    int                   // services that came to a device
	shares  map[lease.Key]float64 // that stand in for those of users
	deaf    bool                  // the queue knows no shares
	daemon  *daemon
}

type fataler interface {
	Helper()
	Fatalf(string, ...any)
	Errorf(string, ...any)
	Logf(string, ...any)
}

// plan says what becomes of a program.
type plan struct {
	come     time.Duration // until its server is ready; negative: never
	dies     time.Duration // when it ends by itself; zero: not
	leave    time.Duration // to end, after SIGTERM
	parks    time.Duration
	resumes  time.Duration
	sleeps   time.Duration
	wakes    time.Duration
	sleepErr string  // of the call
	keeps    gpu.MiB // while it sleeps
}

type held struct {
	key    lease.Key
	fence  uint64
	name   string // of the service
	gpu    string
	memory gpu.MiB
	parked bool
	moving chan struct{} // closed when its memory is where it belongs; nil: it does not move
	since  time.Time
	pid    int
	ended  bool // somebody ended its programs on purpose, not the owner
}

// want waits for room.
type want struct {
	key    lease.Key
	name   string
	since  time.Time
	memory gpu.MiB
	gpu    string
	whole  bool
	into   *held // nil: a new lease
	done   chan *held
}

// server is the program of a service.
type server struct {
	name   string
	plan   plan
	port   int
	pid    int
	ready  bool
	asleep bool
	lease  *held
	used   gpu.MiB
	open   int
	dead   chan struct{}
}

// daemon is one life of a daemon.
type daemon struct {
	*Owner
	*runtest.Life
	w     *world
	nudge chan struct{}
}

func newWorld(t fataler) *world {
	return &world{
		World: runtest.New(), t: t, rules: placement.Rules{Keep: time.Minute, Slice: 5 * time.Minute, Wait: 10 * time.Second}, host: 1 << 20,
		room: map[string]gpu.MiB{"G0": 100}, leases: map[string]*held{},
		servers: map[int]*server{}, begun: map[string]int{}, learned: map[string]gpu.MiB{}, unfit: map[string]bool{},
		script: func(string, int) plan {
			return plan{come: 7 * time.Second, leave: time.Second, parks: 3 * time.Second, resumes: 2 * time.Second, sleeps: time.Second, wakes: time.Second, keeps: 5}
		},
	}
}

// spec returns the settings of a service that takes 60 of the 100 of the device.
func spec(name string, change ...func(*service.Spec)) service.Spec {
	s := service.Spec{
		Name: name, Command: []string{"serve", "${PORT}"}, User: "u", UID: 1000, Memory: gpu.Some[gpu.MiB](60), Start: service.OnDemand, Away: service.Stop,
		StartTimeout: 2 * time.Minute, Restart: true,
	}
	for _, do := range change {
		do(&s)
	}
	return s
}

// inWorld plays in a world with a front.
func inWorld(t *testing.T, specs []service.Spec, play func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.specs = specs
		w.start()
		synctest.Wait()
		w.front()
		defer w.close()
		play(t, w)
	})
}

// close ends everything.
func (w *world) close() {
	d := w.now()
	d.Kill()
	<-d.Over
	var fronts []*tfront
	w.Set(func() { fronts = slices.Clone(w.fronts) })
	for _, f := range fronts {
		f.kill()
	}
	w.Set(func() {
		for _, s := range w.servers {
			go w.endRun(s.pid, 0, "SIGKILL")
		}
		w.Boot = "the end"
	})
	time.Sleep(time.Hour)
	synctest.Wait()
}

// start starts a daemon. The one before it must be dead.
func (w *world) start() *daemon {
	w.t.Helper()
	d := &daemon{w: w, Life: w.Begin(), nudge: make(chan struct{}, 1)}
	d.Owner = newOwner(Options{
		Boot: w.Boot, Minders: runtest.Minders{Life: d.Life, Mind: w.mind, End: func(id process.ID) error { go w.endRun(id.PID, 137, "SIGKILL"); return nil }}, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Numbers: func() (n int64, err error) {
			err = d.Step(func() error { w.number++; n = w.number; return nil })
			return n, err
		},
		Account:  func(_ string, uid int) (api.MinderAccount, error) { return api.MinderAccount{GID: uid}, nil },
		FreePort: func() (int, error) { w.Mu.Lock(); defer w.Mu.Unlock(); w.number++; return 20000 + int(w.number), nil },
		LastLines: func(_ context.Context, s *service.Spec, path string, _ int) []string {
			return []string{"the last line of " + path}
		},
		Follow:  w.follow,
		Publish: func(e gpu.Event) { w.Set(func() { w.events = append(w.events, e) }) },
		Nudge:   d.nudged,
	}, disk{d})
	if w.disk != nil { // the daemon before is dead
		var k kept
		if err := json.Unmarshal(w.disk, &k); err != nil {
			w.t.Fatalf("services.json: %v", err)
		}
		if err := d.load(k); err != nil {
			w.t.Fatalf("services.json: %v", err)
		}
	}
	d.Configure(w.specs)
	w.Set(func() { w.daemon, w.wants, w.shares = d, nil, nil })
	go func() {
		defer close(d.Over)
		_ = d.Run(d.Ctx, desk{d})
	}()
	go d.move()
	return d
}

// restart kills the daemon and starts another.
func (w *world) restart() *daemon {
	w.daemon.Kill()
	<-w.daemon.Over
	w.start()
	synctest.Wait()
	return w.daemon
}

// revive starts another daemon a second after each that was killed, until the function
// that it returns is called.
func (w *world) revive() (stop func()) {
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			d := w.now()
			select {
			case <-over:
				return
			case <-d.Over:
			}
			time.Sleep(time.Second)
			w.start()
		}
	}()
	return func() { close(over); <-done }
}

// now returns the present daemon.
func (w *world) now() (d *daemon) {
	w.Set(func() { d = w.daemon })
	return d
}

// disk is the disk of one daemon.
type disk struct{ d *daemon }

func (m disk) Save(k kept) error {
	return m.d.Step(func() (err error) {
		if m.d.w.full {
			m.d.w.tries++
			return errors.New("no space left on device")
		}
		m.d.w.disk, err = json.Marshal(k)
		return err
	})
}

func (d *daemon) nudged() {
	select {
	case d.nudge <- struct{}{}:
	default:
	}
}

// move plays the mover, with the rules of package park.
func (d *daemon) move() {
	for {
		plan := park.Turn(time.Now(), d.pressure())
		for _, a := range plan.Park {
			d.Away(a.Key, a.Fence, a.For.Key, a.For.Key.ID+" waits for its device")
		}
		var again <-chan time.Time
		if !plan.Next.IsZero() {
			again = time.After(time.Until(plan.Next))
		}
		select {
		case <-d.nudge:
		case <-again:
		case <-d.Dead:
			return
		}
	}
}

func (d *daemon) pressure() placement.Pressure {
	w := d.w
	w.Mu.Lock()
	p := placement.Pressure{Host: w.host}
	for _, id := range slices.Sorted(maps.Keys(w.leases)) {
		h := w.leases[id]
		if !h.parked {
			p.Holdings = append(p.Holdings, placement.Holding{Key: h.key, Fence: h.fence, Service: h.name, GPU: h.gpu, Memory: h.memory, Measured: h.memory, Since: h.since, Rules: w.rules})
		}
	}
	for _, x := range w.sortedWants() {
		p.Wants = append(p.Wants, placement.Want{Key: x.key, Into: x.fence(), Since: x.since, Rooms: w.rooms(x)})
	}
	w.Mu.Unlock()
	for i := range p.Holdings {
		h := &p.Holdings[i]
		if use, runs := d.Use(h.Key, h.Fence); runs {
			h.Program, h.Parkable, h.Since, h.Idle, h.Leaves, h.Barred = true, !use.Since.IsZero(), use.Since, use.Idle, use.Leaves, use.Barred
		}
	}
	return p
}

func (x *want) fence() uint64 {
	if x.into != nil {
		return x.into.fence
	}
	return 0
}

// The following hold mu.

func (w *world) sortedWants() []*want {
	slices.SortStableFunc(w.wants, func(a, b *want) int {
		return cmp.Or(cmp.Compare(w.shares[a.key], w.shares[b.key]), a.since.Compare(b.since), cmp.Compare(a.key.ID, b.key.ID))
	})
	return w.wants
}

func (w *world) free(uuid string) gpu.MiB {
	free := w.room[uuid]
	for _, h := range w.leases {
		if h.gpu == uuid && !h.parked {
			free -= h.memory
		}
	}
	return free
}

func (w *world) rooms(x *want) (list []placement.Room) {
	for _, uuid := range slices.Sorted(maps.Keys(w.room)) {
		need := x.memory
		if x.whole {
			need = w.room[uuid]
		}
		if (x.gpu == "" || x.gpu == uuid) && need <= w.room[uuid] {
			list = append(list, placement.Room{GPU: uuid, Missing: max(need-w.free(uuid), 0)})
		}
	}
	return list
}

// grant serves those who wait, in their order.
func (w *world) grant() {
	defer w.daemon.nudged()
	for _, x := range slices.Clone(w.sortedWants()) {
		i := slices.IndexFunc(w.rooms(x), func(r placement.Room) bool { return r.Missing == 0 })
		if i < 0 {
			return
		}
		w.wants = slices.DeleteFunc(w.wants, func(other *want) bool { return other == x })
		h, uuid := x.into, w.rooms(x)[i].GPU
		switch {
		case h == nil:
			w.number++
			h = &held{key: x.key, fence: uint64(w.number), name: x.name, gpu: uuid, memory: x.memory}
			if x.whole {
				h.memory = w.room[uuid]
			}
			w.leases[x.key.ID] = h
		case h.parked:
			h.parked = false
		default:
			if h.memory += x.memory; w.grown != nil {
				w.grown(h)
			}
		}
		h.since = time.Now()
		for uuid := range w.room {
			if w.free(uuid) < 0 {
				w.t.Errorf("more is leased on %s than it has", uuid)
			}
		}
		x.done <- h
	}
}

// wait stands in the queue.
func (d *daemon) wait(ctx context.Context, x *want) (*held, error) {
	w := d.w
	x.done = make(chan *held, 1)
	if err := d.Step(func() error { w.wants = append(w.wants, x); w.grant(); return nil }); err != nil {
		return nil, err
	}
	select {
	case h := <-x.done:
		return h, d.Step(func() error { return nil })
	case <-d.Dead:
		return nil, runtest.ErrKilled
	case <-ctx.Done():
		time.Sleep(w.lag)
		select {
		case h := <-x.done: // it was granted at the same moment
			return h, nil
		default:
		}
		w.Set(func() {
			w.wants = slices.DeleteFunc(w.wants, func(other *want) bool { return other == x })
			w.grant()
		})
		return nil, ctx.Err()
	}
}

// desk gives out leases.
type desk struct{ d *daemon }

func (s desk) Acquire(ctx context.Context, a run.Ask) (api.Lease, error) {
	w := s.d.w
	var h *held
	var refused error
	w.Set(func() { h, refused = w.leases[a.Key.ID], w.refused })
	if refused != nil {
		return api.Lease{}, refused
	}
	if h == nil {
		var err error
		r := &a.Request
		if h, err = s.d.wait(ctx, &want{key: a.Key, name: r.Service, since: a.Since, memory: r.Memory, gpu: string(r.GPU), whole: r.Exclusive}); err != nil {
			return api.Lease{}, err
		}
	}
	return api.Lease{ID: a.Key.ID, Fence: h.fence, Parts: []api.LeasePart{{GPU: h.gpu, Memory: h.memory}}}, nil
}

func (s desk) Never(a run.Ask) error {
	s.d.w.Mu.Lock()
	defer s.d.w.Mu.Unlock()
	for uuid, room := range s.d.w.room {
		if r := &a.Request; (r.GPU == "" || string(r.GPU) == uuid) && (r.Exclusive || r.Memory <= room) {
			return nil
		}
	}
	return errors.New("no device has so much memory")
}

// of returns a lease, if it stands. The caller holds mu.
func (w *world) of(k lease.Key, fence uint64) *held {
	if h := w.leases[k.ID]; h != nil && h.fence == fence && h.key == k {
		return h
	}
	return nil
}

func (s desk) Hand(_ context.Context, a run.Ask, fence uint64, id process.ID) (l api.Lease, err error) {
	return api.Lease{ID: a.Key.ID, Fence: fence}, s.d.Step(func() error {
		h := s.d.w.of(a.Key, fence)
		if h == nil {
			return runs.ErrNoLease
		}
		if s.d.w.unready != nil {
			return s.d.w.unready
		}
		h.pid = id.PID
		return nil
	})
}

func (s desk) Claim(k lease.Key, fence uint64) (stands bool) {
	s.d.w.Set(func() { stands = s.d.w.of(k, fence) != nil })
	return stands
}

func (s desk) List(lease.RunKind) (all []run.Held) {
	s.d.w.Set(func() {
		for _, h := range s.d.w.leases {
			all = append(all, run.Held{Key: h.key, Fence: h.fence, Bound: h.pid != 0})
		}
	})
	return all
}

func (s desk) Release(k lease.Key, fence uint64, _ string) {
	_ = s.d.Step(func() error {
		if h := s.d.w.leases[k.ID]; h != nil && h.key == k && (fence == 0 || h.fence == fence) {
			delete(s.d.w.leases, k.ID)
			s.d.w.grant()
		}
		return nil
	})
}

// serverOf returns the server of a lease. The caller holds mu.
func (w *world) serverOf(h *held) *server {
	for _, s := range w.servers {
		if s.lease == h {
			return s
		}
	}
	return nil
}

// undisturbed fails if a server has open requests. The caller holds mu.
func (w *world) undisturbed(h *held, what string) *server {
	s := w.serverOf(h)
	if s != nil && s.open > 0 && !h.ended {
		w.t.Errorf("%s is told to %s with %d open requests", h.name, what, s.open)
	}
	return s
}

func (s desk) End(k lease.Key, fence uint64, _ access.Actor, _ string) error {
	return s.d.Step(func() error {
		h := s.d.w.of(k, fence)
		if h == nil {
			return runs.ErrNoLease
		}
		if server := s.d.w.undisturbed(h, "end"); server != nil {
			s.d.w.terminate(server)
		}
		return nil
	})
}

// terminate ends a server. The caller holds mu.
func (w *world) terminate(s *server) {
	takes := s.plan.leave
	if s.lease.parked {
		takes = 0
	}
	time.AfterFunc(takes, func() { w.endRun(s.pid, 143, "SIGTERM") })
}

func (s desk) Park(ctx context.Context, k lease.Key, fence uint64, _ string) error {
	w := s.d.w
	var moving chan struct{}
	err := s.d.Step(func() error {
		h := w.of(k, fence)
		switch {
		case h == nil:
			return lease.ErrUnknown
		case h.parked:
			return nil
		case h.moving != nil:
			moving = h.moving
			return nil
		case h.memory > w.host:
			return errors.New("the machine has no memory for it")
		}
		server := w.undisturbed(h, "park")
		moving = make(chan struct{})
		h.moving = moving
		w.host -= h.memory
		time.AfterFunc(server.plan.parks, func() {
			w.Set(func() {
				h.moving = nil
				close(moving)
				if w.leases[k.ID] == h {
					h.parked = true
					server.used = 0
					w.grant()
				}
			})
		})
		return nil
	})
	if err == nil && moving != nil {
		select {
		case <-moving:
		case <-s.d.Dead:
			return runtest.ErrKilled
		}
		err = s.d.Step(func() error {
			if w.of(k, fence) == nil {
				return lease.ErrUnknown
			}
			return nil
		})
	}
	return err
}

func (s desk) Resume(ctx context.Context, k lease.Key, fence uint64, _ string) (time.Duration, error) {
	w := s.d.w
	var h *held
	var refused error
	w.Set(func() { h, refused = w.of(k, fence), w.refused })
	if h == nil {
		return 0, lease.ErrUnknown
	}
	if refused != nil {
		return 0, refused
	}
	if h.moving != nil {
		<-h.moving
	}
	var server *server
	parked := false
	w.Set(func() { server, parked = w.serverOf(h), h.parked })
	if server == nil {
		return 0, lease.ErrUnknown
	}
	if parked {
		if _, err := s.d.wait(ctx, &want{key: k, name: h.name, since: time.Now(), memory: h.memory, gpu: h.gpu, into: h}); err != nil {
			return 0, err
		}
	}
	time.Sleep(server.plan.resumes)
	return server.plan.resumes, s.d.Step(func() error {
		if w.of(k, fence) == nil {
			return lease.ErrUnknown
		}
		if server.used == 0 {
			server.used = h.memory
			w.host += h.memory
		}
		return nil
	})
}

func (s desk) Shrink(_ context.Context, k lease.Key, fence uint64, to gpu.MiB) error {
	return s.d.Step(func() error {
		h := s.d.w.of(k, fence)
		if h == nil {
			return lease.ErrUnknown
		}
		if s.d.w.refused != nil {
			return s.d.w.refused
		}
		h.memory = to
		s.d.w.grant()
		return nil
	})
}

func (s desk) Grow(ctx context.Context, k lease.Key, fence uint64, to gpu.MiB, since time.Time) error {
	var h *held
	var refused error
	s.d.w.Set(func() { h, refused = s.d.w.of(k, fence), s.d.w.refused })
	if h == nil {
		return lease.ErrUnknown
	}
	if refused != nil {
		return refused
	}
	if h.memory >= to {
		return nil
	}
	_, err := s.d.wait(ctx, &want{key: k, name: h.name, since: since, memory: to - h.memory, gpu: h.gpu, into: h})
	return err
}

func (s desk) Measured(_ context.Context, k lease.Key, fence uint64) (used gpu.MiB, err error) {
	s.d.w.Set(func() {
		if h := s.d.w.of(k, fence); h == nil {
			err = lease.ErrUnknown
		} else if server := s.d.w.serverOf(h); server != nil {
			used = server.used
		}
	})
	return used, err
}

func (s desk) Parkable(k lease.Key, fence uint64) (err error) {
	s.d.w.Set(func() {
		h := s.d.w.of(k, fence)
		switch {
		case h == nil || s.d.w.unfit[h.name]:
			err = errors.New("several processes of it use the device")
		case h.memory > s.d.w.host:
			err = errors.New("the memory of the machine is full")
		}
	})
	return err
}

func (s desk) Learned(name string) (gpu.MiB, bool) {
	s.d.w.Mu.Lock()
	defer s.d.w.Mu.Unlock()
	m, known := s.d.w.learned[name]
	return m, known
}

func (s desk) Stands(k lease.Key) (stands bool) {
	s.d.w.Set(func() {
		h := s.d.w.leases[k.ID]
		stands = h != nil && h.key == k
	})
	return stands
}

func (s desk) Size(k lease.Key, fence uint64) (size gpu.MiB) {
	s.d.w.Set(func() {
		if h := s.d.w.of(k, fence); h != nil {
			size = h.memory
		}
	})
	return size
}

func (s desk) Parked(k lease.Key, fence uint64) (parked bool) {
	s.d.w.Set(func() {
		h := s.d.w.of(k, fence)
		parked = h != nil && h.parked
	})
	return parked
}

func (s desk) Share(k lease.Key, fence uint64) (share float64) {
	s.d.w.Set(func() {
		if h := s.d.w.of(k, fence); h != nil && !h.parked {
			share = float64(h.memory) / float64(s.d.w.room[h.gpu])
		}
	})
	return share
}

func (s desk) SetShares(shares map[lease.Key]float64) {
	s.d.w.Set(func() {
		if s.d.w.daemon == s.d && !s.d.w.deaf {
			s.d.w.shares = shares
			s.d.w.grant()
		}
	})
}

// mind is the life of a minder, and of the server that it starts.
func (w *world) mind(run string, id process.ID) {
	w.Mu.Lock()
	if r := w.Runs[run]; r != nil {
		w.Mu.Unlock()
		w.Gone(id.PID)
		return // another minder has this run
	}
	r := &runtest.Run{Alive: true, Record: runs.Record{PID: id.PID, Start: id.Start, Boot: w.Boot}}
	w.Runs[run] = r
	boot := w.Boot
	w.Mu.Unlock()
	var order api.MinderOrder
	for {
		time.Sleep(50 * time.Millisecond)
		var d *daemon
		over := false
		w.Set(func() { d, over = w.daemon, w.Boot != boot || !r.Alive })
		if over {
			return
		}
		var err error
		if order, err = d.Runs().Order(run, id); err == nil && !d.IsDead() {
			break
		}
		if errors.Is(err, runs.ErrNoOrder) && !d.IsDead() {
			w.endRun(id.PID, -1, "")
			return
		}
	}
	w.Mu.Lock()
	defer w.Mu.Unlock()
	name := strings.TrimPrefix(order.Variables[len(order.Variables)-1], "BERTH_SERVICE=")
	if w.short > 0 {
		w.short--
		r.Record.Short = true
		go w.endRun(id.PID, -1, "")
		return
	}
	w.begun[name]++
	p := w.script(name, w.begun[name])
	port, _ := strconv.Atoi(order.Command[1])
	r.Record.Started, r.Record.Output = time.Now(), "berth-"+name+".log"
	s := &server{name: name, plan: p, port: port, pid: id.PID, lease: w.leases[order.Lease.ID], dead: make(chan struct{})}
	if s.lease == nil || w.servers[port] != nil || slices.ContainsFunc(slices.Collect(maps.Values(w.servers)), func(other *server) bool { return other.name == name }) {
		w.t.Errorf("%s starts without a lease, on a port that is taken, or a second time", name)
		return
	}
	s.used = s.lease.memory
	w.servers[port] = s
	if p.come >= 0 {
		time.AfterFunc(p.come, func() {
			w.Set(func() {
				if s.ready = true; w.servers[port] == s {
					w.came++
				}
			})
		})
	}
	if p.dies > 0 {
		time.AfterFunc(p.dies, func() { w.endRun(id.PID, 1, "") })
	}
}

// endRun ends a run. The exit code -1 means that its command was not started.
func (w *world) endRun(pid, exit int, signal string) {
	w.Mu.Lock()
	var h *held
	for _, r := range w.Runs {
		if r.Record.PID != pid || !r.Alive {
			continue
		}
		r.Alive = false
		r.Record.Ended, r.Record.Signal = time.Now(), signal
		if exit >= 0 {
			r.Record.Exit = gpu.Some(exit)
		} else {
			r.Record.Failure = "the daemon has no order for this run"
		}
	}
	for port, s := range w.servers {
		if s.pid == pid {
			close(s.dead)
			delete(w.servers, port)
		}
	}
	for _, each := range w.leases {
		if each.pid == pid {
			h = each
			if delete(w.leases, h.key.ID); h.parked || h.moving != nil {
				w.host += h.memory
			}
			w.grant()
		}
	}
	d := w.daemon
	w.Mu.Unlock()
	if h != nil {
		d.Runs().LeaseEnded(h.fence, "its process has ended")
	}
	w.Gone(pid)
}

// kill kills the program of a service.
func (w *world) kill(name string) {
	w.Mu.Lock()
	pid := 0
	for _, s := range w.servers {
		if s.name == name {
			pid = s.pid
		}
	}
	w.Mu.Unlock()
	w.endRun(pid, 137, "SIGKILL")
}

// revoke ends the lease of a service, and then its program.
func (w *world) revoke(name string) {
	var h *held
	var s *server
	w.Set(func() {
		if h = w.leaseOf(name); h == nil {
			return
		}
		s = w.serverOf(h)
		h.ended = true
		delete(w.leases, h.key.ID)
		w.grant()
	})
	if h == nil {
		return
	}
	w.now().Runs().LeaseEnded(h.fence, "it used more than its lease")
	if s != nil {
		time.AfterFunc(time.Second, func() { w.endRun(s.pid, 137, "SIGKILL") })
	}
}

func (w *world) follow(ctx context.Context, spec *service.Spec, path string, line func(string) bool) error {
	for ctx.Err() == nil {
		text := "loading " + path
		w.Set(func() {
			for _, s := range w.servers {
				if s.name == spec.Name && s.ready {
					text = "listening"
				}
			}
		})
		if !line(text) {
			return nil
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// life returns what is kept of a service.
func (w *world) life(name string) service.Life {
	d := w.now()
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.services[name].life
}

// leaseOf returns the lease of a service; nil: it has none.
func (w *world) leaseOf(name string) *held {
	for _, h := range w.leases {
		if h.name == name {
			return h
		}
	}
	return nil
}

// state returns the state of a service.
func (w *world) state(name string) string {
	s, found := w.now().Find(name)
	if !found {
		return "none"
	}
	return s.State
}

// is fails unless a service is in a state.
func (w *world) is(name, want string) {
	w.t.Helper()
	synctest.Wait()
	if got := w.state(name); got != want {
		s, _ := w.now().Find(name)
		w.t.Fatalf("%s is %s; want %s (%s)", name, got, want, s.Why)
	}
}

// told returns the texts of the events with a code.
func (w *world) told(code gpu.EventCode) (list []string) {
	w.Set(func() {
		for _, e := range w.events {
			if e.Code == code {
				list = append(list, e.Text)
			}
		}
	})
	return list
}
