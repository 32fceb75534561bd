package world

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/process"
)

// front is the front before the services of the machine. It outlives daemons.
type front struct {
	w    *World
	id   process.ID
	asks *client.Client
	name string
	ctx  context.Context
	stop context.CancelFunc

	mu       sync.Mutex // guards what follows
	services map[string]*frontService
	reports  []api.FrontReport
	whole    bool // the next report has to be about all services
	number   uint64
	changed  chan struct{} // closed when the table has changed
	due      chan struct{} // has room for one; there is something to report
}

// frontService is a service as the front knows it.
type frontService struct {
	api.FrontService
	open    map[uint64]int // requests, by epoch
	closed  map[uint64]bool
	waiting int
}

// beginFront starts the front.
func (w *World) beginFront() {
	w.mu.Lock()
	w.fronts++
	name := fmt.Sprint("front", w.fronts)
	w.mu.Unlock()
	f := &front{w: w, name: name, services: map[string]*frontService{}, changed: make(chan struct{}), due: make(chan struct{}, 1)}
	f.id = w.processes.begin(proc{uid: frontUID, parent: 1, name: "berth-front"})
	f.asks = w.client(frontUID, f.id, false)
	f.ctx, f.stop = context.WithCancel(context.Background())
	w.mu.Lock()
	w.front = f
	w.mu.Unlock()
	go f.listen()
	go f.tell()
}

// listen takes orders from whichever daemon lives.
func (f *front) listen() {
	for f.ctx.Err() == nil {
		for order, err := range f.asks.FrontOrders(f.ctx, f.name) {
			if err != nil {
				break
			}
			f.take(order)
		}
		select {
		case <-time.After(time.Second):
		case <-f.ctx.Done():
		}
	}
}

// take takes in an order.
func (f *front) take(o api.FrontOrder) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if o.Services != nil || o.Settings != nil {
		for _, s := range o.Services {
			f.put(s)
		}
		f.whole = true
		f.wake()
	}
	switch {
	case o.Service != nil:
		f.put(*o.Service)
	case o.Removed != "":
		delete(f.services, o.Removed)
	case o.Probe != nil:
		p := *o.Probe
		go f.probe(p)
	case o.Call != nil:
		c := *o.Call
		go func() {
			f.w.nap(2 * time.Second)
			f.report(api.FrontReport{Called: &api.FrontOutcome{FrontEpoch: c.FrontEpoch, ID: c.ID, OK: !f.w.one(10), Error: "perhaps"}})
		}()
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// put replaces a service. The caller holds mu.
func (f *front) put(s api.FrontService) {
	have := f.services[s.Name]
	if have == nil {
		have = &frontService{open: map[uint64]int{}, closed: map[uint64]bool{}}
		f.services[s.Name] = have
	}
	if s.State == "ready" && have.closed[s.Epoch] {
		f.w.wrong("epochs", "the epoch %d of %s opens again", s.Epoch, s.Name)
	}
	have.FrontService = s
	if s.State == "closing" {
		have.closed[s.Epoch] = true
		if s.Cut != "" {
			have.open[s.Epoch] = 0
		}
		if have.open[s.Epoch] == 0 {
			f.reports = append(f.reports, api.FrontReport{Closed: &api.FrontEpoch{Service: s.Name, Epoch: s.Epoch}})
			f.wake()
		}
	}
}

// probe finds out when a server is ready.
func (f *front) probe(p api.FrontProbe) {
	for until := time.Now().Add(time.Duration(p.Timeout * float64(time.Second))); time.Now().Before(until) && f.ctx.Err() == nil; {
		f.w.nap(5 * time.Second)
		time.Sleep(100 * time.Millisecond)
		f.mu.Lock()
		s := f.services[p.Service]
		over := s == nil || s.Epoch != p.Epoch || s.State != "starting" && s.State != "returning"
		f.mu.Unlock()
		if over {
			return
		}
		if f.w.serves(p.Service) {
			f.report(api.FrontReport{Probed: &api.FrontOutcome{FrontEpoch: p.FrontEpoch, OK: true}})
			return
		}
	}
	f.report(api.FrontReport{Probed: &api.FrontOutcome{FrontEpoch: p.FrontEpoch, Error: "it does not answer"}})
}

func (f *front) report(r api.FrontReport) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reports = append(f.reports, r)
	f.wake()
}

func (f *front) wake() {
	select {
	case f.due <- struct{}{}:
	default:
	}
}

// state returns the report about all requests of a service. The caller holds mu.
func (s *frontService) state() api.FrontReport {
	return api.FrontReport{Open: &api.FrontOpen{Service: s.Name, Epoch: s.Epoch, Open: s.open[s.Epoch], Waiting: s.waiting}}
}

// tell sends the reports, one after the other, each until it is answered.
func (f *front) tell() {
	for {
		select {
		case <-f.due:
		case <-f.ctx.Done():
			return
		}
		f.mu.Lock()
		r := api.FrontReports{Front: f.name, Number: f.number + 1, Whole: f.whole, Reports: f.reports, Listen: "127.0.0.1:8080"}
		if f.whole {
			var all []api.FrontReport
			for _, s := range f.services {
				all = append(all, s.state())
			}
			r.Reports = append(all, r.Reports...)
		}
		if r.Reports == nil {
			r.Reports = []api.FrontReport{}
		}
		f.number, f.whole, f.reports = f.number+1, false, nil
		f.mu.Unlock()
		for pause := 50 * time.Millisecond; f.ctx.Err() == nil; pause = min(2*pause, 5*time.Second) {
			err := f.asks.FrontReport(f.ctx, r)
			var problem *api.Problem
			if err == nil {
				break
			}
			if errors.As(err, &problem) && slices.Contains([]int{400, 413, 422}, problem.Status) {
				f.w.wrong("answers", "a report of the front is refused: %v", err)
				return
			}
			time.Sleep(pause)
		}
	}
}

// ask plays one request for a service, from its first byte to its last. It returns false if
// it was refused.
func (f *front) ask(service, user string) bool {
	for deadline := time.Now().Add(time.Hour); time.Now().Before(deadline) && f.ctx.Err() == nil; {
		f.mu.Lock()
		s, changed := f.services[service], f.changed
		if s == nil {
			f.mu.Unlock()
			select {
			case <-changed:
			case <-time.After(time.Minute):
				return false
			}
			continue
		}
		if s.State == "ready" && !s.closed[s.Epoch] {
			f.serve(s, s.Epoch)
			return true
		}
		s.waiting++
		f.reports = append(f.reports, s.state())
		f.wake()
		f.mu.Unlock()
		ctx, cancel := context.WithTimeout(f.ctx, 30*time.Minute)
		_, err := f.asks.FrontBring(ctx, api.FrontBring{Front: f.name, Service: service, User: user})
		cancel()
		f.mu.Lock()
		s.waiting--
		f.reports = append(f.reports, s.state())
		f.wake()
		f.mu.Unlock()
		var problem *api.Problem
		if errors.As(err, &problem) {
			f.w.reached("service refused: " + problem.Code)
			if problem.Code == "internal" {
				f.w.wrong("fault", "bring %s: %v", service, err)
			}
			if problem.Status < 500 {
				return false
			}
		}
		time.Sleep(5 * time.Second)
	}
	return false
}

// serve passes one request on. The caller holds mu, which serve gives back.
func (f *front) serve(s *frontService, epoch uint64) {
	s.open[epoch]++
	f.reports = append(f.reports, s.state())
	f.wake()
	f.mu.Unlock()
	f.w.reached("a service answers")
	if !f.w.serves(s.Name) {
		f.w.reached("a request meets a dead server")
	}
	f.w.nap(2 * time.Minute)
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.open[epoch] > 0 {
		s.open[epoch]--
	}
	f.reports = append(f.reports, s.state())
	if s.closed[epoch] && s.open[epoch] == 0 {
		f.reports = append(f.reports, api.FrontReport{Closed: &api.FrontEpoch{Service: s.Name, Epoch: epoch}})
	}
	f.wake()
}

// services are the services of the machine.
var services = []string{"chat", "embed", "steady", "sleepy"}

// serves reports whether the server of a service runs.
func (w *World) serves(service string) bool {
	w.mu.Lock()
	id := w.servers[service]
	w.mu.Unlock()
	return id != (process.ID{}) && w.processes.runs(id)
}

// useService asks for a service.
func (w *World) useService() {
	w.mu.Lock()
	f := w.front
	w.mu.Unlock()
	if f == nil || f.ctx.Err() != nil {
		return
	}
	service, user := services[w.intn(len(services))], nameOf(w.someone())
	go f.ask(service, user)
}

// actOnService starts, stops, restarts or moves a service.
func (w *World) actOnService() {
	id, c := w.caller([]int{0, olga, olga, w.someone()}[w.intn(4)])
	service := services[w.intn(len(services))]
	act := []string{"start", "stop", "restart", "move", "show"}[w.intn(5)]
	w.reached("service × " + map[string]string{"stop": "cancel", "start": "start", "restart": "release", "move": "resize", "show": "show"}[act])
	go func() {
		defer w.processes.end(id, 0)
		err := w.asking(act+" service", longCall, func(ctx context.Context) (err error) {
			switch act {
			case "start":
				_, err = c.StartService(ctx, service, "why not")
			case "stop":
				_, err = c.StopService(ctx, service, "why not")
			case "restart":
				_, err = c.RestartService(ctx, service, "why not")
			case "move":
				_, err = c.MoveService(ctx, service, api.ServiceOrder{GPU: w.cards[w.intn(4)].about.UUID})
			case "show":
				_, err = c.Services(ctx)
			}
			return err
		})
		w.note("%s %s: %v", act, service, err)
	}()
}

// serverDies ends a server.
func (w *World) serverDies() {
	w.mu.Lock()
	id := w.servers[services[w.random.IntN(len(services))]]
	w.mu.Unlock()
	w.reached("service × a killed process")
	w.processes.end(id, process.Kill)
}

// stopServices stops all services, for the end of a history.
func (w *World) stopServices(ctx context.Context, root *client.Client) (left []string) {
	all, err := root.Services(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	for _, s := range all.Services {
		if !slices.Contains(services, s.Name) {
			continue
		}
		if s.State != "away" && s.State != "failed" && s.State != "stopped" {
			left = append(left, fmt.Sprintf("service %s is %s since %v (%s), %d open, %d wait, lease %s, it runs: %v", s.Name, s.State, s.Since, s.Why, s.Open, s.Waiting, s.Lease, w.serves(s.Name)))
		}
		_, _ = root.StopService(ctx, s.Name, "the end") // refused if it was stopped before
	}
	return left
}
