package owner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/job/service"
	"github.com/berth-gpu/berth/internal/process/runs"
)

const (
	// mostFronts is how many fronts may be there at a time: the newest, and old ones that
	// end their streams.
	mostFronts = 32
	// mostOrders is how many orders a front may leave unread. Then it has to ask again.
	mostOrders = 4096
	// hearWithin is how long a person waits until the fronts know what was ordered.
	hearWithin = 2 * time.Second
)

// front is a process that takes requests. Its fields are those of Owner that others read,
// except for stream and number.
type front struct {
	stream *stream // nil: it gets no orders
	number uint64  // of its last report
	until  time.Time
	whole  bool // it has told how many requests it has since it asked for orders
	open   map[string]api.FrontOpen
	used   map[string][]api.FrontUse // by service: who uses it
	closed map[string]uint64         // the newest epoch of each service that it has closed
}

func newFront() *front {
	return &front{open: map[string]api.FrontOpen{}, used: map[string][]api.FrontUse{}, closed: map[string]uint64{}}
}

// stream has the orders that a front has not read.
type stream struct {
	mu    sync.Mutex
	list  []api.FrontOrder
	over  bool          // nothing comes any more
	ready chan struct{} // has room for one
}

func (st *stream) put(order api.FrontOrder) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.over {
		return
	}
	if st.list = append(st.list, order); len(st.list) > mostOrders {
		st.over = true
	}
	st.ring()
}

func (st *stream) end() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.over = true
	st.ring()
}

func (st *stream) ring() {
	select {
	case st.ready <- struct{}{}:
	default:
	}
}

func (st *stream) take() (list []api.FrontOrder, over bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	list, st.list = st.list, nil
	return list, st.over
}

// frontCall is what the owner has asked of a front, until the front answers.
type frontCall struct {
	order api.FrontOrder
	to    *front // nil: no front has it
	done  chan api.FrontOutcome
}

// ErrReplaced means that a front has asked for its orders again, or does not read them.
var ErrReplaced = errors.New("the front asked again, or reads too slowly")

// Orders sends orders to a front until ctx ends, send fails, or the front asks again. The
// first has all services.
func (o *Owner) Orders(ctx context.Context, name string, send func(api.FrontOrder) error) error {
	st := &stream{ready: make(chan struct{}, 1)}
	defer func() { _ = o.decide(func() error { o.disconnect(name, st); return nil }) }()
	if err := o.decide(func() error { return o.connect(name, st) }); err != nil {
		return err
	}
	for {
		list, over := st.take()
		if over {
			return ErrReplaced
		}
		for _, order := range list {
			if err := send(order); err != nil {
				return err
			}
		}
		select {
		case <-st.ready:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-o.running.Done():
			return runs.ErrStopped
		}
	}
}

// connect gives a front its first order. The front is written down before, because it may
// have requests when the next daemon begins. If that fails, it is written down later: until
// then no service can be closed either.
func (o *Owner) connect(name string, st *stream) error {
	f := o.fronts[name]
	if f == nil {
		if len(o.fronts) >= mostFronts {
			return fmt.Errorf("%w: there are %d fronts already; end old ones", ErrState, len(o.fronts))
		}
		f = newFront()
		o.set(func() { o.fronts[name] = f })
		o.writeFronts()
	}
	if f.stream != nil {
		f.stream.end()
	}
	o.set(func() { f.stream, f.whole = st, false })
	first := api.FrontOrder{Services: make([]api.FrontService, 0, len(o.services))}
	for _, each := range o.names() {
		first.Services = append(first.Services, o.forFronts(o.services[each]))
	}
	if o.Front != nil {
		settings := o.Front()
		first.Settings = &settings
	}
	st.put(first)
	for _, e := range o.calls { // what it was told before may be lost
		if e.to == nil || e.to == f {
			o.assign(e)
		}
	}
	return nil
}

// writeFronts writes down which fronts there are.
func (o *Owner) writeFronts() {
	if o.write(nil, nil, o.leftovers) != nil {
		o.runs.Set(&o.rewriting, time.Now().Add(brokenPause), unwritten{})
	}
}

// disconnect notes that a front gets no more orders.
func (o *Owner) disconnect(name string, st *stream) {
	if f := o.fronts[name]; f != nil && f.stream == st {
		o.set(func() { f.stream, f.whole, f.until = nil, false, time.Now().Add(patience) })
	}
}

// dropFronts forgets fronts that did not come back. They have no requests.
func (o *Owner) dropFronts(now time.Time) {
	for name, f := range o.fronts {
		if f.stream != nil {
			continue
		}
		if now.Before(f.until) {
			o.lookAt(f.until)
			continue
		}
		o.set(func() { delete(o.fronts, name) })
		for _, e := range o.calls {
			if e.to == f {
				o.assign(e)
			}
		}
		if o.Nudge != nil {
			o.Nudge()
		}
	}
}

// known reports whether every front has told how many requests it has. The caller decides,
// or holds mu.
func (o *Owner) known() bool {
	for _, f := range o.fronts {
		if !f.whole {
			return false
		}
	}
	return true
}

// forFronts returns what fronts are told of a service.
func (o *Owner) forFronts(s *owned) api.FrontService {
	return service.ForFronts(&s.life, s.name, s.spec)
}

// tell tells all fronts of a service.
func (o *Owner) tell(s *owned) {
	told := o.forFronts(s)
	o.order(api.FrontOrder{Service: &told})
}

// order gives all fronts an order.
func (o *Owner) order(order api.FrontOrder) {
	for _, f := range o.fronts {
		if f.stream != nil {
			f.stream.put(order)
		}
	}
}

// send has a front do something, and waits until it is done. It returns why it was not.
func (o *Owner) send(ctx context.Context, order api.FrontOrder) error {
	e := &frontCall{order: order, done: make(chan api.FrontOutcome, 1)}
	id := ""
	defer func() {
		_ = o.decide(func() error {
			if o.calls[id] == e {
				delete(o.calls, id)
			}
			return nil
		})
	}()
	if err := o.decide(func() error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if o.callsSum++; order.Call != nil {
			call := *order.Call
			call.ID = strconv.Itoa(o.callsSum) + "-" + strconv.FormatUint(call.Epoch, 10)
			e.order.Call, id = &call, call.ID
		} else {
			id = probeID(order.Probe.FrontEpoch)
		}
		o.calls[id] = e
		o.assign(e)
		return nil
	}); err != nil {
		return err
	}
	select {
	case done := <-e.done:
		if done.OK {
			return nil
		}
		return errors.New(done.Error)
	case <-ctx.Done():
	case <-o.running.Done():
		return runs.ErrStopped
	}
	if o.isConnected() {
		return errors.New("the front did not say in time how its server answers")
	}
	return errors.New("there is no front that could ask its server; berth doctor says why")
}

// heard waits until every front has taken in the orders that it was given so far, but not
// for long: no calls to a server are done then.
func (o *Owner) heard() {
	ctx, cancel := context.WithTimeout(o.running, hearWithin)
	defer cancel()
	all := map[string]*frontCall{}
	_ = o.decide(func() error {
		for _, f := range o.fronts {
			if f.stream == nil {
				continue
			}
			o.callsSum++
			id := "heard-" + strconv.Itoa(o.callsSum)
			e := &frontCall{order: api.FrontOrder{Call: &api.FrontCall{ID: id, Calls: []api.FrontHTTPCall{}, Timeout: 1}}, to: f, done: make(chan api.FrontOutcome, 1)}
			o.calls[id], all[id] = e, e
			f.stream.put(e.order)
		}
		return nil
	})
	for _, e := range all {
		select {
		case <-e.done:
		case <-ctx.Done():
		}
	}
	_ = o.decide(func() error {
		for id := range all {
			delete(o.calls, id)
		}
		return nil
	})
}

func probeID(e api.FrontEpoch) string {
	return "probe " + e.Service + " " + strconv.FormatUint(e.Epoch, 10)
}

// Connected reports whether a front gets orders.
func (o *Owner) Connected(name string) bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	f := o.fronts[name]
	return f != nil && f.stream != nil
}

func (o *Owner) isConnected() bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	for _, f := range o.fronts {
		if f.stream != nil {
			return true
		}
	}
	return false
}

// assign gives a call to a front, one that has told of its requests if there is one.
func (o *Owner) assign(e *frontCall) {
	e.to = nil
	for _, f := range o.fronts {
		if f.stream != nil && (e.to == nil || f.whole) {
			e.to = f
		}
	}
	if e.to != nil {
		e.to.stream.put(e.order)
	}
}

// Report takes in what a front reports. It returns when that is counted.
func (o *Owner) Report(r api.FrontReports) error {
	return o.decide(func() error {
		f := o.fronts[r.Front]
		if f == nil {
			return nil // it has not asked for orders, and reports everything when it does
		}
		if r.Number <= f.number {
			return nil
		}
		f.number = r.Number
		busy := map[string]bool{}
		o.charge(o.usesOf(r.Reports))
		o.set(func() {
			if r.Whole {
				for name := range f.open {
					busy[name] = true
				}
				f.open, f.whole = map[string]api.FrontOpen{}, f.stream != nil
			}
			for _, each := range r.Reports {
				o.take(f, &each, busy)
			}
		})
		if (len(busy) > 0 || r.Whole) && o.Nudge != nil {
			o.Nudge()
		}
		return nil
	})
}

// take takes in one report. Busy gets the services whose requests have changed. The caller
// holds mu.
func (o *Owner) take(f *front, r *api.FrontReport, busy map[string]bool) {
	now := time.Now()
	switch {
	case r.Closed != nil:
		if o.services[r.Closed.Service] != nil {
			f.closed[r.Closed.Service] = max(f.closed[r.Closed.Service], r.Closed.Epoch)
		}
	case r.Probed != nil:
		o.done(probeID(r.Probed.FrontEpoch), r.Probed)
	case r.Called != nil:
		o.done(r.Called.ID, r.Called)
	case r.Open != nil:
		if s := o.services[r.Open.Service]; s != nil {
			f.open[s.name] = api.FrontOpen{Open: max(r.Open.Open, 0), Waiting: max(r.Open.Waiting, 0)}
			if last := r.Open.LastAnswer; last.After(s.last) && !last.After(now) {
				s.last = last
			} else if last.After(now) {
				s.last = now
			}
			busy[s.name] = true
		}
	case r.Used != nil:
		if s := o.services[r.Used.Service]; s != nil {
			f.used[s.name] = r.Used.Callers
		}
	case r.Counted != nil:
		if s := o.services[r.Counted.Service]; s != nil {
			add(&s.sum, r.Counted)
		}
	}
}

func (o *Owner) done(id string, outcome *api.FrontOutcome) {
	if e := o.calls[id]; e != nil {
		delete(o.calls, id)
		e.done <- *outcome
	}
}

// add adds what a front has counted.
func add(sum, c *api.FrontCounted) {
	sum.Requests, sum.Failed, sum.Refused = sum.Requests+c.Requests, sum.Failed+c.Failed, sum.Refused+c.Refused
	sum.TokensIn, sum.TokensOut = sum.TokensIn+c.TokensIn, sum.TokensOut+c.TokensOut
	sum.Seconds, sum.Waited = sum.Seconds+c.Seconds, sum.Waited+c.Waited
	if len(c.FirstByte) == len(api.FrontBounds)+1 {
		if sum.FirstByte == nil {
			sum.FirstByte = make([]uint64, len(c.FirstByte))
		}
		sum.FirstByte = slices.Clone(sum.FirstByte) // Counts hands the old one out
		for i, n := range c.FirstByte {
			sum.FirstByte[i] += n
		}
	}
}

// Counts returns what all fronts have counted of each service since the start of the
// daemon.
func (o *Owner) Counts() []api.FrontCounted {
	o.mu.RLock()
	defer o.mu.RUnlock()
	list := make([]api.FrontCounted, 0, len(o.services))
	for _, name := range o.names() {
		c := o.services[name].sum
		c.Service = name
		list = append(list, c)
	}
	return list
}
