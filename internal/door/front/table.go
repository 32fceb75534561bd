package front

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/door/front/route"
)

// table holds the services as the daemon described them, and the requests of each.
//
// The daemon alone opens and closes a service; each stay of it has an epoch. A request is
// admitted under the epoch that is open at that moment, under the lock of the table, so
// after the report that an epoch is closed none begins under it.
type table struct {
	mu       sync.Mutex
	services map[string]*service
	names    []route.Names     // of the services, in the order of their names; replaced as a whole
	outbox   []api.FrontReport // what the daemon must hear besides counts
	whole    bool              // the daemon must hear about all services
	listen   string            // where the front takes requests; empty if it does not
	bringing int               // questions for services that the daemon has not answered

	wake   chan struct{} // has room for one; something changed
	urgent chan struct{} // has room for one; the daemon waits for what is in the outbox
}

func newTable() *table {
	return &table{services: map[string]*service{}, wake: make(chan struct{}, 1), urgent: make(chan struct{}, 1)}
}

// service is one service. The lock of the table guards it.
type service struct {
	told     api.FrontService
	stay     *stay // the newest that was open; nil if there was none
	open     int   // requests that were passed on, of all stays
	waiting  int   // requests that wait for the service
	uses     uses
	last     time.Time
	counted  api.FrontCounted
	sent     api.FrontOpen        // what the daemon heard last
	bringing map[string]*bringing // by user; "": of all who are not kept apart
}

// stay is the time from the opening of a service to its closing. The lock of the table
// guards open, over and closing.
type stay struct {
	epoch   uint64
	service *service
	server  *server
	open    int
	over    bool // nothing is admitted any more
	closing bool // the daemon waits for the report that it is closed

	// ended ends after the last request. What is not counted as open, such as a socket,
	// ends with it.
	ended context.Context
	end   context.CancelFunc
}

// ring tells the reporter that something changed.
func (t *table) ring(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// learn replaces the whole table. Requests of services that are gone go on.
func (t *table) learn(all []api.FrontService, connect func(api.FrontService) *server) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := map[string]bool{}
	for _, told := range all {
		kept[told.Name] = true
		t.put(told, connect)
	}
	for name := range t.services {
		if !kept[name] {
			t.drop(name)
		}
	}
	t.index()
}

// learnOne replaces or adds one service.
func (t *table) learnOne(told api.FrontService, connect func(api.FrontService) *server) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(told, connect)
	t.index()
}

// remove forgets a service.
func (t *table) remove(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(name)
	t.index()
}

func (t *table) drop(name string) {
	if s := t.services[name]; s != nil {
		s.finish()
		delete(t.services, name)
	}
}

// put takes over what the daemon says about a service.
func (t *table) put(told api.FrontService, connect func(api.FrontService) *server) {
	s := t.services[told.Name]
	if s == nil {
		s = &service{counted: api.FrontCounted{Service: told.Name}, bringing: map[string]*bringing{}}
		t.services[told.Name] = s
	}
	s.told = told
	switch told.State {
	case "ready":
		s.enter(told, connect)
	case "closing":
		s.enter(told, connect)
		if st := s.stay; told.Cut != "" && st.epoch == told.Epoch {
			st.server.breakOff(told.Cut)
		}
		t.close(s, told.Epoch)
	default:
		if s.stay != nil && !s.stay.follows(told) {
			s.finish()
		}
	}
}

// follows reports whether a stay began after what is told. The answer to whoever asked for
// the service may be here before the orders that led to it.
func (st *stay) follows(told api.FrontService) bool {
	comes := told.State == "starting" || told.State == "returning"
	return told.Epoch < st.epoch || told.Epoch == st.epoch && comes
}

// enter opens a stay, unless the service has had this one or a later one.
func (s *service) enter(told api.FrontService, connect func(api.FrontService) *server) {
	if s.stay != nil && told.Epoch <= s.stay.epoch {
		return
	}
	s.finish()
	ended, end := context.WithCancel(context.Background())
	s.stay = &stay{epoch: told.Epoch, service: s, server: connect(told), ended: ended, end: end}
}

// finish ends the stay of a service whose server is gone. Its open requests end by
// themselves.
func (s *service) finish() {
	if s.stay == nil || s.stay.over {
		return
	}
	s.stay.over = true
	s.stay.settle()
}

// settle ends what was not counted, after the last request of a stay that is over.
func (st *stay) settle() {
	if st.over && st.open == 0 {
		st.end()
		st.server.close()
	}
}

// close ends a stay. If the service has no such stay, nothing is open under its epoch.
func (t *table) close(s *service, epoch uint64) {
	if s.stay == nil || s.stay.epoch != epoch {
		t.tell(api.FrontReport{Closed: &api.FrontEpoch{Service: s.told.Name, Epoch: epoch}})
		return
	}
	s.stay.over, s.stay.closing = true, true
	t.closed(s.stay)
}

// closed reports that a stay is closed, once its last request has ended.
func (t *table) closed(st *stay) {
	st.settle()
	if st.closing && st.open == 0 {
		st.closing = false
		t.tell(api.FrontReport{Closed: &api.FrontEpoch{Service: st.service.told.Name, Epoch: st.epoch}})
	}
}

// tell puts a report into the outbox.
func (t *table) tell(r api.FrontReport) {
	t.outbox = append(t.outbox, r)
	t.ring(t.urgent)
}

// report puts a report into the outbox.
func (t *table) report(r api.FrontReport) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tell(r)
}

// reportAll makes the next report about all services.
func (t *table) reportAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.whole = true
	t.ring(t.urgent)
}

// listens notes where the front takes requests, and reports that.
func (t *table) listens(address string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.listen, t.whole = address, true
	t.ring(t.urgent)
}

// admission is a request that is counted as open.
type admission struct {
	*stay
	use *use
}

// admit counts a request of a user as open, if the service is.
func (s *service) admit(user string) (a admission, open bool) {
	if s.stay == nil || s.stay.over {
		return a, false
	}
	s.stay.open++
	s.open++
	return admission{s.stay, s.uses.begin(user, time.Now())}, true
}

// leave ends a request that was admitted.
func (t *table) leave(a admission) {
	t.mu.Lock()
	defer t.mu.Unlock()
	st, now := a.stay, time.Now() // within the lock, as all times of uses: they do not go back
	st.service.uses.end(a.use, now)
	st.open--
	st.service.open--
	st.service.last = now
	t.closed(st)
	t.changed(st.service)
}

// changed sees to the report of a change. That a service has no request any more, and may
// go, the daemon hears at once.
func (t *table) changed(s *service) {
	if s.open+s.waiting == 0 && s.sent.Open+s.sent.Waiting > 0 {
		t.ring(t.urgent)
		return
	}
	t.ring(t.wake)
}

// current returns the stay of a service that is open, without counting a request.
func (t *table) current(name string) *stay {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.services[name]
	if s == nil || s.stay == nil || s.stay.over {
		return nil
	}
	return s.stay
}

// idle reports whether no service is open and no request waits or is open.
func (t *table) idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.services {
		if s.open+s.waiting > 0 || s.stay != nil && !s.stay.over {
			return false
		}
	}
	return true
}

// find returns what the daemon said about a service.
func (t *table) find(name string) (api.FrontService, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.services[name]; s != nil {
		return s.told, true
	}
	return api.FrontService{}, false
}

// index makes the names anew.
func (t *table) index() {
	names := make([]route.Names, 0, len(t.services))
	for _, s := range t.services {
		names = append(names, route.Names{Service: s.told.Name, Models: s.told.Models, Hosts: s.told.Hosts})
	}
	slices.SortFunc(names, func(a, b route.Names) int { return cmp.Compare(a.Service, b.Service) })
	t.names = names
}

// known returns the names of the services. The caller must not change them.
func (t *table) known() []route.Names {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.names
}

// count changes the counters of a service.
func (t *table) count(name string, change func(*api.FrontCounted)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.services[name]; s != nil {
		change(&s.counted)
		t.ring(t.wake)
	}
}

// mostReports is how many reports one message has; the API takes no more.
const mostReports = 10000

// collect takes what the daemon has not heard yet, with or without who used services. It
// returns an empty message if that is nothing.
func (t *table) collect(uses bool) api.FrontReports {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(len(t.outbox), mostReports/2)
	message := api.FrontReports{Whole: t.whole, Listen: t.listen, Reports: slices.Clone(t.outbox[:n])}
	t.outbox, t.whole = slices.Delete(t.outbox, 0, n), false
	if len(t.outbox) > 0 {
		t.ring(t.urgent)
	}
	if uses {
		message.Reports = append(message.Reports, t.used(time.Now())...)
	}
	for _, name := range slices.Sorted(maps.Keys(t.services)) {
		s := t.services[name]
		now := api.FrontOpen{Service: name, Open: s.open, Waiting: s.waiting, LastAnswer: s.last}
		if s.stay != nil {
			now.Epoch = s.stay.epoch
		}
		busy := now.Open+now.Waiting > 0
		if s.sent.Service == "" && !busy && now.LastAnswer.IsZero() && !message.Whole {
			continue
		}
		if message.Whole || now != s.sent {
			s.sent = now
			message.Reports = append(message.Reports, api.FrontReport{Open: &now})
		}
		if s.counted.Requests > 0 {
			counted := s.counted
			s.counted = api.FrontCounted{Service: name}
			message.Reports = append(message.Reports, api.FrontReport{Counted: &counted})
		}
	}
	return message
}
