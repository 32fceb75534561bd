package owner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/api"
)

// tfront plays a front: it admits requests under the epoch that is open, and reports that
// one is closed when the last request has ended.
type tfront struct {
	w    *world
	name string
	dead chan struct{}
	once sync.Once

	mu           sync.Mutex // guards what follows
	table        map[string]*tservice
	outbox       []api.FrontReport
	whole        bool
	learned      bool // it has its first order
	number       uint64
	wake, urgent chan struct{}
}

type tservice struct {
	told    api.FrontService
	stay    *tstay
	open    int
	waiting int
	last    time.Time
	sent    api.FrontOpen
	probe   context.CancelFunc

	users map[string]int     // open requests
	used  map[string]float64 // seconds
	at    time.Time          // up to which these are known
}

// use counts what falls to each user up to now, and then changes how many requests one has.
func (s *tservice) use(user string, n int) {
	now := time.Now()
	for each, open := range s.users {
		s.used[each] += now.Sub(s.at).Seconds() * float64(open) / float64(s.open)
	}
	if s.at = now; s.users == nil {
		s.users, s.used = map[string]int{}, map[string]float64{}
	}
	if s.users[user] += n; s.users[user] == 0 {
		delete(s.users, user)
	}
}

type tstay struct {
	epoch         uint64
	port          int
	open          int
	over, closing bool
	cut           chan struct{} // closed when its requests are broken off
	why           string        // that they are told
}

// front starts a front.
func (w *world) front() *tfront {
	f := &tfront{w: w, dead: make(chan struct{}), table: map[string]*tservice{}, wake: make(chan struct{}, 1), urgent: make(chan struct{}, 1)}
	w.Set(func() { w.number++; f.name = fmt.Sprintf("front%d", w.number); w.fronts = append(w.fronts, f) })
	go f.obey()
	go f.report()
	synctest.Wait()
	return f
}

// kill ends a front as kill -9 does. Its requests break off.
func (f *tfront) kill() {
	f.once.Do(func() { close(f.dead) })
	f.w.Set(func() { f.w.fronts = slices.DeleteFunc(f.w.fronts, func(other *tfront) bool { return other == f }) })
}

// alive returns a context that ends with the front and with the daemon.
func (f *tfront) alive() (context.Context, context.CancelFunc, *daemon) {
	ctx, cancel := context.WithCancel(context.Background())
	var d *daemon
	f.w.Set(func() { d = f.w.daemon })
	go func() {
		select {
		case <-f.dead:
		case <-d.Dead:
		case <-ctx.Done():
		}
		cancel()
	}()
	return ctx, cancel, d
}

func (f *tfront) isDead() bool {
	select {
	case <-f.dead:
		return true
	default:
		return false
	}
}

func (f *tfront) obey() {
	for !f.isDead() {
		ctx, cancel, d := f.alive()
		_ = d.Orders(ctx, f.name, func(order api.FrontOrder) error {
			return d.Step(func() error { f.obeyOne(order); return nil })
		})
		cancel()
		time.Sleep(200 * time.Millisecond)
	}
}

func (f *tfront) obeyOne(order api.FrontOrder) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if order.Services != nil {
		kept := map[string]bool{}
		for _, told := range order.Services {
			kept[told.Name] = true
			f.put(told)
		}
		for name := range f.table {
			if !kept[name] {
				delete(f.table, name)
			}
		}
		f.whole, f.learned = true, true
	}
	if order.Service != nil {
		f.put(*order.Service)
	}
	delete(f.table, order.Removed)
	if p := order.Probe; p != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(p.Timeout*float64(time.Second)))
		f.table[p.Service].probe = cancel
		go f.probe(ctx, *p)
	}
	if order.Call != nil {
		go f.call(*order.Call)
	}
	f.ring()
}

func (f *tfront) ring() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
	if f.whole || len(f.outbox) > 0 {
		select {
		case f.urgent <- struct{}{}:
		default:
		}
	}
}

func (f *tfront) put(told api.FrontService) {
	s := f.table[told.Name]
	if s == nil {
		s = &tservice{probe: func() {}}
		f.table[told.Name] = s
	}
	if s.told = told; told.State != "starting" && told.State != "returning" {
		s.probe()
	}
	if told.State == "ready" || told.State == "closing" {
		s.enter(told.Epoch, told.Port)
	} else if st := s.stay; st != nil && st.epoch <= told.Epoch && (st.epoch < told.Epoch || told.State != "starting" && told.State != "returning") {
		st.over = true // else the answer to a request was here before this order
	}
	if told.State == "closing" {
		if s.stay.epoch != told.Epoch {
			f.outbox = append(f.outbox, api.FrontReport{Closed: &api.FrontEpoch{Service: told.Name, Epoch: told.Epoch}})
			return
		}
		s.stay.over, s.stay.closing = true, true
		if told.Cut != "" && s.stay.why == "" {
			s.stay.why = told.Cut
			close(s.stay.cut)
		}
		f.closed(told.Name, s.stay)
	}
}

func (s *tservice) enter(epoch uint64, port int) {
	if s.stay == nil || epoch > s.stay.epoch {
		s.stay = &tstay{epoch: epoch, port: port, cut: make(chan struct{})}
	}
}

func (f *tfront) closed(name string, st *tstay) {
	if st.closing && st.open == 0 {
		st.closing = false
		f.outbox = append(f.outbox, api.FrontReport{Closed: &api.FrontEpoch{Service: name, Epoch: st.epoch}})
		f.ring()
	}
}

func (f *tfront) report() {
	using := time.NewTicker(5 * time.Second)
	defer using.Stop()
	for {
		uses := false
		select {
		case <-using.C:
			uses = true
		case <-f.wake:
		case <-f.dead:
			return
		}
		f.mu.Lock()
		urgent := f.whole || len(f.outbox) > 0
		f.mu.Unlock()
		if !urgent && !uses {
			select {
			case <-f.dead:
				return
			case <-f.urgent:
			case <-time.After(250 * time.Millisecond):
			}
		}
		f.mu.Lock()
		message := api.FrontReports{Front: f.name, Whole: f.whole, Reports: f.outbox}
		f.outbox = nil
		for _, name := range slices.Sorted(maps.Keys(f.table)) {
			s := f.table[name]
			now := api.FrontOpen{Service: name, Open: s.open, Waiting: s.waiting, LastAnswer: s.last}
			if now != s.sent || f.whole {
				s.sent = now
				message.Reports = append(message.Reports, api.FrontReport{Open: &now})
			}
			if s.use("", 0); uses && len(s.used) > 0 {
				used := api.FrontUsed{Service: name}
				for _, user := range slices.Sorted(maps.Keys(s.used)) {
					used.Callers = append(used.Callers, api.FrontUse{User: user, Open: s.users[user], Seconds: s.used[user]})
				}
				s.used = map[string]float64{}
				message.Reports = append(message.Reports, api.FrontReport{Used: &used})
			}
		}
		if f.whole = false; uses && len(message.Reports) == 0 {
			f.mu.Unlock()
			continue
		}
		f.number++
		message.Number = f.number
		f.mu.Unlock()
		for {
			_, cancel, d := f.alive()
			err := d.Report(message)
			cancel()
			if f.isDead() || err == nil && !d.IsDead() {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
}

func (f *tfront) probe(ctx context.Context, p api.FrontProbe) {
	out := api.FrontOutcome{FrontEpoch: p.FrontEpoch, Error: "connection refused"}
	for !out.OK {
		f.w.Set(func() { s := f.w.servers[p.Port]; out.OK = s != nil && s.ready })
		if out.OK {
			break
		}
		select {
		case <-f.dead:
			return
		case <-ctx.Done():
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return
			}
		case <-time.After(250 * time.Millisecond):
			continue
		}
		break
	}
	f.tell(api.FrontReport{Probed: &out})
}

func (f *tfront) tell(r api.FrontReport) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.outbox = append(f.outbox, r)
	f.ring()
}

// call has a server sleep or wake.
func (f *tfront) call(c api.FrontCall) {
	out := api.FrontOutcome{FrontEpoch: c.FrontEpoch, ID: c.ID, OK: true}
	if len(c.Calls) == 0 {
		f.tell(api.FrontReport{Called: &out})
		return
	}
	var takes time.Duration
	var s *server
	f.w.Set(func() {
		if s = f.w.servers[c.Port]; s == nil {
			out.OK, out.Error = false, "connection refused"
			return
		}
		if takes = s.plan.wakes; c.Calls[0].Path == "/sleep" {
			takes = s.plan.sleeps
			f.w.undisturbed(s.lease, "sleep")
			if s.plan.sleepErr != "" {
				out.OK, out.Error = false, s.plan.sleepErr
			}
		}
	})
	time.Sleep(takes)
	if out.OK {
		f.w.Set(func() {
			s.asleep = c.Calls[0].Path == "/sleep"
			if s.used = s.lease.memory; s.asleep {
				time.AfterFunc(time.Second, func() { f.w.Set(func() { s.used = s.plan.keeps }) }) // freed memory lags
			}
		})
	}
	f.tell(api.FrontReport{Called: &out})
}

// errBroken means that a server or a front died before a request was answered.
var errBroken = errors.New("the connection broke off")

// errCut means that a request took longer than the service, which had to go, could stay.
var errCut = errors.New("the request was broken off")

// request sends a request, whose answer takes some time. It returns nil if it is answered.
func (f *tfront) request(ctx context.Context, name, user string, takes time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for !f.learned { // it does not listen yet
		f.mu.Unlock()
		time.Sleep(100 * time.Millisecond)
		if f.mu.Lock(); f.isDead() {
			return errBroken
		}
	}
	s := f.table[name]
	if s == nil {
		return gone(name)
	}
	s.waiting++
	defer func() { s.waiting--; f.ring() }()
	for {
		if f.table[name] != s {
			return gone(name)
		}
		if s.told.Stopped != nil {
			return isStopped(name, s.told.Stopped)
		}
		if st := s.stay; st != nil && !st.over {
			if err := f.pass(name, user, s, st, takes); !errors.Is(err, errRefused) {
				return err
			}
		}
		f.ring()
		f.mu.Unlock()
		alive, cancel, d := f.alive()
		stop := context.AfterFunc(ctx, cancel)
		brought, err := d.Bring(alive, api.FrontBring{Front: f.name, Service: name, User: user})
		stop()
		cancel()
		if refusal := (*Refusal)(nil); ctx.Err() == nil && !f.isDead() && (err != nil && !errors.As(err, &refusal)) {
			time.Sleep(200 * time.Millisecond)
		}
		f.mu.Lock()
		refusal := (*Refusal)(nil)
		switch {
		case f.isDead():
			return errBroken
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &refusal):
			return refusal
		case err == nil:
			s.enter(brought.Epoch, brought.Port)
		}
		f.mu.Unlock()
		time.Sleep(50 * time.Millisecond)
		f.mu.Lock()
	}
}

var errRefused = errors.New("connection refused")

// pass passes a request to a server. The caller holds mu.
func (f *tfront) pass(name, user string, s *tservice, st *tstay, takes time.Duration) error {
	s.use(user, 1)
	st.open++
	s.open++
	s.waiting--
	f.ring()
	f.mu.Unlock()
	err := f.w.serve(st.port, name, takes, f.dead, st.cut)
	f.mu.Lock()
	s.use(user, -1)
	st.open--
	s.open--
	s.waiting++
	s.last = time.Now()
	f.closed(name, st)
	f.ring()
	return err
}

// serve answers a request.
func (w *world) serve(port int, name string, takes time.Duration, broken, cut chan struct{}) error {
	w.Mu.Lock()
	s := w.servers[port]
	if s == nil || !s.ready {
		w.Mu.Unlock()
		return errRefused
	}
	if s.name != name || s.asleep || s.lease.parked || s.lease.moving != nil {
		w.t.Errorf("a request for %s reaches %s, asleep %v, parked %v", name, s.name, s.asleep, s.lease.parked || s.lease.moving != nil)
	}
	s.open++
	w.Mu.Unlock()
	err := error(nil)
	select {
	case <-time.After(takes):
	case <-s.dead:
		err = errBroken
	case <-broken:
		err = errBroken
	case <-cut:
		err = errCut
	}
	w.Set(func() { s.open-- })
	return err
}

// ask sends a request through the newest front, and returns where its result comes.
func (w *world) ask(ctx context.Context, name string, takes time.Duration) <-chan error {
	return w.askAs(ctx, "u", name, takes)
}

// askAs does it as a user.
func (w *world) askAs(ctx context.Context, user, name string, takes time.Duration) <-chan error {
	done := make(chan error, 1)
	var f *tfront
	w.Set(func() { f = w.fronts[len(w.fronts)-1] })
	go func() { done <- f.request(ctx, name, user, takes) }()
	return done
}
