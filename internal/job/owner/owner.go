package owner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/fault"
	"github.com/berth-gpu/berth/internal/job/run"
	"github.com/berth-gpu/berth/internal/job/service"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process/runs"
	"github.com/berth-gpu/berth/internal/text/words"
	"github.com/berth-gpu/berth/internal/when"
)

// Options are the options of Open.
type Options struct {
	Folder  string // for services.json; it must be there
	Boot    string // of the machine
	Minders run.Minders
	Numbers func() (int64, error) // of instances, as of jobs
	// Account looks a user up. After an error that passes a minder asks again.
	Account  func(user string, uid int) (api.MinderAccount, error)
	FreePort func() (int, error)
	// LastLines returns the last lines of a log, and Follow hands every line of it to a
	// function, those that are there and those that come, until the function returns false
	// or ctx ends. Both read with the rights of the user of the service.
	LastLines func(ctx context.Context, s *service.Spec, path string, n int) []string
	Follow    func(ctx context.Context, s *service.Spec, path string, line func(string) bool) error
	Publish   func(gpu.Event)
	Log       *slog.Logger
	Front     func() api.FrontSettings
	// Nudge is called when the use of a program has changed, see mover.Nudge. It must not
	// block; nil: nobody wants to know.
	Nudge func()
}

// Errors for callers to test. A minder is refused with those of package runs.
var (
	// ErrUnknown means that there is no such service.
	ErrUnknown = errors.New("there is no such service")
	// ErrState means that a service is in a state in which that cannot be done.
	ErrState = errors.New("that cannot be done now")
)

const (
	// brokenPause is how long the owner waits before it tries again what failed.
	brokenPause = 3 * time.Second
	// patience is how long a front that is gone may take to come back. Then it has no
	// requests.
	patience = 5 * time.Second
	// quietFor is how long nobody has asked for the others when a default service comes
	// back, and lookAround how often that is looked at.
	quietFor   = 5 * time.Minute
	lookAround = 5 * time.Second
)

// kept is what services.json has.
type kept struct {
	Services  map[string]*service.Life `json:"services"`
	Leftovers []leftover               `json:"debts,omitempty"`
	Fronts    []string                 `json:"fronts,omitempty"` // that may have requests
	Uses      service.Uses             `json:"uses,omitzero"`
}

// leftover is a lease that has to be given back and a run that has to be forgotten. It is
// written down with the state that has neither any more.
type leftover struct {
	Service string `json:"service"`
	UID     int    `json:"uid"`
	User    string `json:"user"`
	Lease   string `json:"lease"`
	Fence   uint64 `json:"fence,omitempty"` // 0: the lease was perhaps never granted
	Run     string `json:"run,omitempty"`
}

// Owner owns the programs of services.
type Owner struct {
	Options
	store interface{ Save(kept) error }
	runs  *run.Runs
	begun chan struct{} // closed when Run has begun; what follows is known then

	leases  Leases
	running context.Context
	busy    sync.WaitGroup // goroutines that do what takes time

	// deciding is held by whoever changes a service. It is taken before mu, and guards what
	// follows.
	deciding   sync.Mutex
	configured bool // the settings are known
	troubled   bool // services.json cannot be written
	calls      map[string]*frontCall
	callsSum   int
	alarm      time.Time             // when to look again
	alarms     *run.Timer            // then
	rewriting  *run.Timer            // when the fronts are written down again
	shares     map[lease.Key]float64 // by which services wait, as the ledger knows them; never changed, but replaced

	// Whoever decides changes what follows under mu; others read it.
	mu        sync.RWMutex
	services  map[string]*owned
	leftovers []leftover
	fronts    map[string]*front
	uses      service.Uses
}

// owned is a service.
type owned struct {
	name    string
	spec    *service.Spec // the settings now; nil: it is in none
	life    service.Life
	waiters []*waiter
	last    time.Time // its last answer
	growing bool      // it sleeps, and waits for room to wake
	unready string    // why it does not come or go yet, if that passes
	sum     api.FrontCounted

	// These are for whoever decides.
	left      time.Time          // when the last waiter has left
	turn      int                // grows with each state, so that what was begun in an earlier one is not taken in
	during    context.Context    // of what was begun in this state; nil if nothing was
	cancel    context.CancelFunc // gives that up
	withdrawn bool               // its return was given up
	ending    time.Time          // when its program was told to end
	asking    bool               // it is closed, and berth finds out how to send it away
	sentFor   lease.Key          // who needed its room
	share     float64            // of the machine that its lease takes, or took last
	rests     time.Time          // until when nothing is tried again that could not be written down
	undone    *undone            // what happens as soon as it can be written down
}

// undone is an event that could not be written down.
type undone struct {
	event  service.Event
	facts  service.Facts
	change func(*service.Life)
}

// Open reads services.json. Run then goes on where the last daemon stopped. A damaged file
// is set aside and told; the programs that it knew are left alone.
func Open(o Options) (*Owner, *file.Damage) {
	store := file.NewState[kept](filepath.Join(o.Folder, FileName), file.StateOptions{
		What: "the states of services", Version: version,
		Lost: "It is not known which services were stopped, and programs of services that run are not known to berth: end them by berth cancel.",
	})
	w := newOwner(o, store)
	return w, store.Load(w.load)
}

func newOwner(o Options, store interface{ Save(kept) error }) *Owner {
	w := &Owner{Options: o, store: store, begun: make(chan struct{}), calls: map[string]*frontCall{}, services: map[string]*owned{}, fronts: map[string]*front{}}
	w.runs = run.New(run.Options{Kind: lease.OfService, Boot: o.Boot, Minders: o.Minders, Account: o.Account, Log: o.Log}, w)
	return w
}

// load takes over what the file has.
func (o *Owner) load(k kept) error {
	for name, life := range k.Services {
		if life == nil || !slices.Contains(service.States(), life.State) || (life.State == service.Waiting || life.State.Leases()) != (life.Instance != nil) {
			return fmt.Errorf("the service %q has no state, or one without what belongs to it", name)
		}
	}
	for name, life := range k.Services {
		life.Restore(time.Now())
		o.services[name] = &owned{name: name, life: *life, cancel: func() {}}
	}
	for _, name := range k.Fronts {
		o.fronts[name] = newFront()
	}
	o.leftovers, o.uses = k.Leftovers, k.Uses
	return nil
}

// Newest returns the largest number of an instance; 0 if there is none. It is for the time
// before Run.
func (o *Owner) Newest() (number int64) {
	for _, s := range o.services {
		if s.life.Instance != nil {
			number = max(number, s.life.Instance.Number)
		}
	}
	return number
}

// FileName is the name of the file with the states of services.
const FileName = "services.json"

// Run brings services and sends them away until ctx ends. Programs that run are left alone.
func (o *Owner) Run(ctx context.Context, l Leases) error {
	o.deciding.Lock()
	o.leases, o.running = l, ctx
	o.runs.Begin(ctx, l)
	o.recover() // before anybody decides
	o.deciding.Unlock()
	close(o.begun)
	o.runs.Send(alarmed{})
	o.runs.Go()
	o.deciding.Lock() // until nobody decides any more
	o.deciding.Unlock()
	o.runs.Wait()
	o.busy.Wait()
	return nil
}

// decide changes services, and then lets happen what follows, until every service may stay
// as it is. It does nothing before Run, for which it waits, and after it.
func (o *Owner) decide(do func() error) error {
	<-o.begun
	defer fault.Shared()
	o.deciding.Lock()
	defer o.deciding.Unlock()
	if o.running.Err() != nil {
		return runs.ErrStopped
	}
	err := do()
	for o.running.Err() == nil && o.review() {
	}
	o.runs.Set(&o.alarms, o.alarm, alarmed{})
	return err
}

// What the owner leaves for itself.
type (
	alarmed   struct{} // something may be due
	unwritten struct{} // there may be a front that is not written down
	cleared   struct{ leftover }
	moved     struct{ fence uint64 }
	sent      struct { // away
		key    lease.Key
		fence  uint64
		wanter lease.Key
		why    string
	}
	vacated struct {
		gpu, why string
		others   func() []string
	}
)

// Due implements run.Book.
func (o *Owner) Due(note any) {
	_ = o.decide(func() error {
		switch n := note.(type) {
		case unwritten:
			o.writeFronts()
		case cleared:
			o.cleared(n.leftover)
		case moved:
			if s := o.holding(n.fence); s != nil {
				o.follow(s)
			}
		case sent:
			o.sendAway(n)
		case vacated:
			o.vacate(n)
		}
		return nil
	})
}

// set changes what others read.
func (o *Owner) set(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change()
}

// names returns the names of the services in their order.
func (o *Owner) names() []string { return slices.Sorted(maps.Keys(o.services)) }

// write writes down a change of one service, and then makes it. Nil forgets the service.
func (o *Owner) write(s *owned, life *service.Life, leftovers []leftover) error {
	k := kept{Services: map[string]*service.Life{}, Leftovers: leftovers, Fronts: slices.Sorted(maps.Keys(o.fronts)), Uses: o.uses}
	for name, each := range o.services {
		k.Services[name] = &each.life
	}
	if s != nil {
		if k.Services[s.name] = life; life == nil {
			delete(k.Services, s.name)
		}
	}
	err := o.store.Save(k)
	o.tellTrouble(err)
	if err != nil {
		return err
	}
	o.set(func() {
		if o.leftovers = leftovers; s != nil && life != nil {
			s.life = *life
		} else if s != nil {
			delete(o.services, s.name)
			for _, f := range o.fronts {
				delete(f.open, s.name)
				delete(f.used, s.name)
				delete(f.closed, s.name)
			}
		}
	})
	return nil
}

// tellTrouble publishes that services.json cannot be written, or can again.
func (o *Owner) tellTrouble(err error) {
	if (err != nil) == o.troubled || o.running != nil && o.running.Err() != nil {
		return
	}
	o.troubled = err != nil
	e := gpu.Event{Time: time.Now(), Code: gpu.EventJournal, Severity: gpu.Note, Text: "The daemon can write down the states of services again."}
	if err != nil {
		e.Severity, e.Text = gpu.Serious, fmt.Sprintf("The daemon cannot write down the states of services, so it starts and stops none; those that are ready are not affected: %v", err)
	}
	o.Publish(e)
}

// surely lets an event happen to a service that comes once. If it cannot be written down,
// the same is tried again later, unless something else has happened by then.
func (o *Owner) surely(s *owned, e service.Event, f service.Facts, change func(*service.Life)) {
	if o.happen(s, e, f, change) != nil {
		s.undone, s.rests = &undone{e, f, change}, time.Now().Add(brokenPause)
	}
}

// happen lets an event happen to a service: it writes down the state that follows, and
// then does what there is to do. Change completes the new state. If it cannot be written
// down, nothing happens.
func (o *Owner) happen(s *owned, e service.Event, f service.Facts, change func(*service.Life)) error {
	now, was, life, leftovers := time.Now(), s.life, s.life, o.leftovers
	if life.Instance != nil {
		i := *life.Instance
		life.Instance = &i
	}
	if change != nil {
		change(&life)
	}
	if life.Instance != nil {
		f.Way = life.Instance.Way
	}
	to, acts, changes := service.Next(life.State, e, f)
	if !changes {
		return nil
	}
	if len(acts) == 1 && acts[0] == service.Withdraw {
		s.withdrawn = true
		s.cancel()
		return nil
	}
	var released *leftover
	if slices.Contains(acts, service.Release) {
		released = leftoverOf(s.name, was.Instance)
		leftovers = append(slices.Clone(leftovers), *released)
	}
	life.Enter(to, acts, now)
	if err := o.write(s, &life, leftovers); err != nil {
		return err
	}
	s.turn++
	s.cancel()
	s.during, s.cancel, s.withdrawn, s.asking, s.undone = nil, func() {}, false, false, nil
	o.set(func() { s.growing, s.unready = false, "" })
	o.tell(s)
	o.tellPeople(s, &was)
	if was.State != service.Closing && slices.Contains(acts, service.Open) {
		o.chargeComing(s, &was, now)
	}
	o.place(now)
	for _, a := range acts {
		o.act(s, a)
	}
	if released != nil {
		o.clear(*released)
	}
	if o.Nudge != nil {
		o.Nudge()
	}
	return nil
}

// alter changes what is kept of a service besides its state.
func (o *Owner) alter(s *owned, change func(*service.Life)) error {
	life := s.life
	if life.Instance != nil {
		i := *life.Instance
		life.Instance = &i
	}
	change(&life)
	if err := o.write(s, &life, o.leftovers); err != nil {
		return err
	}
	o.tell(s)
	return nil
}

// review lets happen what the situation of each service asks for, and sets the alarm. It
// reports whether something has happened.
func (o *Owner) review() (happened bool) {
	now := time.Now()
	o.alarm = time.Time{}
	o.dropFronts(now)
	for _, name := range o.names() {
		s := o.services[name]
		if s.spec == nil && o.configured && !s.life.State.Leases() && s.life.State != service.Waiting && !slices.ContainsFunc(o.leftovers, func(d leftover) bool { return d.Service == name }) {
			if o.write(s, nil, o.leftovers) == nil {
				o.order(api.FrontOrder{Removed: name})
			} else {
				o.lookAt(now.Add(brokenPause))
			}
			continue
		}
		if !o.configured {
			continue
		}
		turn := s.turn
		if u := s.undone; u != nil && !now.Before(s.rests) {
			s.undone = nil
			o.surely(s, u.event, u.facts, u.change)
			happened = happened || s.turn != turn
			turn = s.turn
		}
		situation := o.situation(s, now)
		e, why, at := s.life.Review(&situation)
		if (e != "" || s.undone != nil) && now.Before(s.rests) {
			o.lookAt(s.rests)
			continue
		}
		switch {
		case e == service.Drop && s.withdrawn:
			e = ""
		case e == service.Want && s.life.Instance == nil && s.spec.UID < 0: // Configure comes again when its user is known
			e = ""
			o.refuse(s, unavailable("unknown_user", retryUnknown, "The service %s waits for its user: %s.", name, noUser(s.spec)))
		case e == service.Want:
			o.bring(s, &situation)
		case e == service.Leave:
			_ = o.happen(s, e, service.Facts{}, leaves(why, o.whyLeave(s, &situation, why)))
		case e == service.Overdue:
			if o.happen(s, e, service.Facts{}, func(l *service.Life) { l.Instance.Cut = true }) == nil {
				o.Publish(tokenless(o.cutOff(s)))
			}
		case e == service.Fails:
			why := "its program could not be started within its start_timeout of " + words.Duration(s.life.Instance.Spec.Timeout())
			if s.unready != "" {
				why += ": " + s.unready
			}
			_ = o.happen(s, e, service.Facts{}, func(l *service.Life) { l.Fail(why, nil, now) })
		case e != "":
			_ = o.happen(s, e, service.Facts{}, func(l *service.Life) {
				if l.Why = "nobody asks for it any more"; l.State == service.Starting {
					l.Instance.Way = service.Stop
				}
			})
		}
		if s.life.State == service.Closing {
			o.closed(s)
		}
		if happened = happened || s.turn != turn; s.turn == turn && e != "" {
			s.rests = now.Add(brokenPause) // it could not be written down
			at = s.rests
		}
		if at.After(now) {
			o.lookAt(at)
		}
	}
	o.place(now)
	if slices.ContainsFunc(slices.Collect(maps.Values(o.services)), func(s *owned) bool { return s.spec != nil && s.spec.Default }) {
		o.lookAt(now.Add(lookAround))
	}
	return happened
}

// lookAt makes Run look again at a time; zero: not because of this.
func (o *Owner) lookAt(at time.Time) {
	if !at.IsZero() && (o.alarm.IsZero() || at.Before(o.alarm)) {
		o.alarm = at
	}
}

// leaves returns the change that notes why a service has to go. One that is not ready is
// stopped.
func leaves(why service.Reason, words string) func(*service.Life) {
	return func(l *service.Life) {
		l.Why, l.Instance.For, l.Instance.ForWhom = words, why, words
		if l.State != service.Serving {
			l.Instance.Way = service.Stop
		}
	}
}

func (o *Owner) whyLeave(s *owned, at *service.Situation, why service.Reason) string {
	if why == service.ForIdle {
		return "nobody has asked for it for its idle_after"
	}
	return s.life.MustGo(at)
}

// situation returns what a service is in.
func (o *Owner) situation(s *owned, now time.Time) service.Situation {
	at := service.Situation{Now: now, Spec: s.spec, Waiting: len(s.waiters), Left: s.left, Open: o.requests(s.name), Last: s.last, Known: o.known()}
	at.Closed = at.Known && o.isClosed(s)
	if s.spec != nil && s.spec.Default {
		at.Quiet = o.quiet(s, now)
	}
	return at
}

// requests returns how many requests of a service the fronts have. The caller decides, or
// holds mu.
func (o *Owner) requests(name string) (sum int) {
	for _, f := range o.fronts {
		sum += f.open[name].Open + f.open[name].Waiting
	}
	return sum
}

// quiet reports whether nobody asks for another service than a default one, and whoever
// needed its room is gone.
func (o *Owner) quiet(s *owned, now time.Time) bool {
	if s.sentFor != (lease.Key{}) {
		if o.leases.Stands(s.sentFor) && o.serviceOf(s.sentFor) == nil {
			return false
		}
	}
	for _, other := range o.services {
		if other == s || other.spec != nil && other.spec.Default {
			continue
		}
		at := service.Situation{Waiting: len(other.waiters), Open: o.requests(other.name), Last: other.last, Known: true}
		switch idle := other.life.Idle(&at); {
		case idle.IsZero(), !other.life.Called.IsZero():
			return false
		case other.life.State == service.Serving && now.Before(idle.Add(quietFor)):
			return false
		}
	}
	return true
}

// Configure replaces the settings of all services. It stops nothing, and waits
// only while somebody decides: what has changed holds from the next start of a service. One
// that is not among them is sent away and forgotten. It is called before Run, and at each
// reload.
func (o *Owner) Configure(all []service.Spec) {
	o.deciding.Lock()
	defer o.deciding.Unlock()
	o.configured = true
	now := map[string]*service.Spec{}
	for i := range all {
		now[all[i].Name] = &all[i]
	}
	for name, spec := range now {
		o.set(func() { // nobody sees a service without its settings
			if o.services[name] == nil {
				began := time.Now()
				life := service.Life{State: service.Away, Since: began, Epoch: service.FirstEpoch(began)}
				o.services[name] = &owned{name: name, life: life, cancel: func() {}}
			}
			o.services[name].spec = spec
		})
	}
	for _, s := range o.services {
		if now[s.name] == nil {
			o.set(func() { s.spec = nil })
			o.refuse(s, gone(s.name))
		}
		o.tell(s)
	}
	o.runs.Send(alarmed{})
}

// keyOf returns the key of the lease of an instance.
func keyOf(i *service.Instance) lease.Key {
	return lease.Key{Owner: lease.Holder{UID: i.Spec.UID, User: i.Spec.User}.Owner(), ID: i.LeaseID(), Run: inLease(i.Number)}
}

// inLease names the instance with a number, in its lease.
func inLease(number int64) lease.Run { return lease.Run{Kind: lease.OfService, Number: number} }

// keyOf returns the key of the lease that has to be given back.
func (d *leftover) keyOf() lease.Key {
	number, _ := strconv.ParseInt(d.Lease[strings.LastIndexByte(d.Lease, '-')+1:], 10, 64) // see Instance.LeaseID
	return lease.Key{Owner: lease.Holder{UID: d.UID, User: d.User}.Owner(), ID: d.Lease, Run: inLease(number)}
}

func leftoverOf(name string, i *service.Instance) *leftover {
	d := &leftover{Service: name, UID: i.Spec.UID, User: i.Spec.User, Lease: i.LeaseID(), Fence: i.Fence}
	if i.Fence != 0 {
		d.Run = i.Run()
	}
	return d
}

// runOf returns the run of an instance that has its lease.
func runOf(i *service.Instance) run.Run {
	return run.Run{Name: i.Run(), Key: keyOf(i), Fence: i.Fence, Since: i.Granted, Begun: !i.Ordered.IsZero()}
}

// askFor returns the request for a lease of an instance. Its memory is the learned one, if
// the settings have none.
func askFor(l *service.Life) run.Ask {
	i := l.Instance
	s := &i.Spec
	a := run.Ask{Key: keyOf(i), User: s.User, Name: s.Name, Since: when.Of(i.Asked), Request: api.LeaseRequest{
		ID: i.LeaseID(), Name: s.Name, Service: s.Name, GPUs: max(s.GPUs, 1), Memory: s.Memory.Or(0), Exclusive: i.Whole, GPU: gpu.Ref(l.GPU), Enforce: "auto",
		Comment: "the program of the service " + s.Name,
	}}
	if !i.Whole {
		a.Request.Slots = gpu.Some(0) // as an allocation for a service: memory decides how many run together
	}
	return a
}

// instance returns a new instance of a service, without its number.
func (o *Owner) instance(spec *service.Spec, asked time.Time) *service.Instance {
	i := &service.Instance{Spec: *spec, Asked: asked}
	if !spec.Memory.Known() {
		var learned gpu.MiB
		if learned, i.Learned = o.leases.Learned(spec.Name); i.Learned {
			i.Spec.Memory = gpu.Some(learned)
		}
		i.Whole = !i.Learned
	}
	return i
}

// bring lets a service come because somebody wants it.
func (o *Owner) bring(s *owned, at *service.Situation) {
	asked := cmp.Or(s.life.Called, at.Now)
	for _, w := range s.waiters {
		if w.since.Before(asked) {
			asked = w.since
		}
	}
	if s.life.Instance != nil {
		_ = o.happen(s, service.Want, service.Facts{}, func(l *service.Life) { l.Instance.Asked, l.Why = asked, "" })
		return
	}
	number, err := o.Numbers()
	if err != nil {
		o.Log.Warn("a service has no number", "service", s.name, "error", err)
		o.tellTrouble(err)
		return
	}
	i := o.instance(s.spec, asked)
	i.Number = number
	_ = o.happen(s, service.Want, service.Facts{}, func(l *service.Life) { l.Instance, l.Why = i, "" })
}
