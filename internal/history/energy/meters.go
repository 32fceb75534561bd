package energy

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/lease"
)

const (
	mostAccounts = 1000 // accounts of all users
	mostPerUser  = 100  // accounts of one user
	mostGone     = 256  // leases that have just ended
	leastWork    = 3.0  // seconds of work needed for an average power that is worth remembering
)

// Account says for whom energy was used.
type Account struct {
	User    string `json:"user,omitempty"`
	Service string `json:"service,omitempty"`
	Name    string `json:"name,omitempty"` // of the program
}

// Process is a process on a device.
type Process struct {
	PID   int
	Lease *lease.Lease // nil if it is under no lease
}

// Used is the energy and power of a lease.
type Used struct {
	Joules gpu.Opt[gpu.Joules] // absent if nothing was measured
	Watts  gpu.Opt[gpu.Watts]  // average on each device while it worked, above what the idle device draws
}

// Options are the parts that Meters work with. All may be nil.
type Options struct {
	// Interval returns the time between two samples.
	Interval func() time.Duration
	// Busy asks a device how much its processes used it since a moment.
	Busy func(ctx context.Context, uuid string, since time.Time) (device.Busy, error)
	// Label returns the label under which metrics show a service of a user.
	Label func(service, user string) string
	// User returns the label under which metrics show a user.
	User func(name string) string
}

// Meters keeps how much energy devices and leases used, and for whom, across restarts.
// New and Open make one.
//
// It learns from the samples of the monitor. It asks the driver only how much each
// process used a device, while processes of several leases are on it.
type Meters struct {
	Options
	file     *file.State[json.RawMessage]
	volatile bool          // there is no file
	divided  chan struct{} // has room for one value, sent when a driver should be asked how its device is divided

	mu       sync.Mutex // guards what follows
	devices  map[string]*unit
	leases   map[uint64]*use // existing leases, by fence
	gone     []ended         // leases that ended last, the newest at the end
	unmet    []uint64        // fences of those that ended last without being on a device
	accounts map[Account]Amount
	perUser  map[string]int     // number of accounts
	turns    map[Account]uint64 // in which order accounts were last given to a lease
	turn     uint64             // the last of these
	services sums               // by label
	users    sums               // likewise
}

// sums are what leases used, by a label. Those who used nothing since the daemon started
// have no label, but their sums go on when they do.
type sums struct {
	before map[string]Amount // what earlier daemons added up
	now    map[string]Amount // all of it, of those who used something since
	kept   map[string]Amount // now as it is in the file, which is what is shown
}

func newSums() sums {
	return sums{map[string]Amount{}, map[string]Amount{}, map[string]Amount{}}
}

func (s *sums) add(label string, amount Amount) {
	if _, there := s.now[label]; !there {
		s.now[label] = s.before[label]
	}
	s.now[label] += amount
}

// all returns what the next daemon goes on from: of those who used nothing, the largest.
func (s *sums) all() map[string]Amount {
	all := maps.Clone(s.now)
	names := slices.SortedFunc(maps.Keys(s.before), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.before[b], s.before[a]), strings.Compare(a, b))
	})
	for _, name := range names[:min(len(names), mostAccounts)] {
		if _, there := all[name]; !there {
			all[name] = s.before[name]
		}
	}
	return all
}

// unit is a device, and what is known about its processes.
type unit struct {
	Meter
	busy  device.Busy
	asked time.Time          // when the driver was last asked for busy
	draws map[uint64]float64 // watts above idle that each lease drew lately, by fence
}

// ended is a lease that has just ended.
type ended struct {
	fence uint64
	used  gpu.Joules
}

// use is the energy that a lease has used.
type use struct {
	ID      string  `json:"id"`
	Account Account `json:"account"`
	Energy  Amount  `json:"energy_uj"`
	Work    Amount  `json:"work_uj"` // while the device worked
	Seconds float64 `json:"work_seconds"`

	devices []string
}

// New returns Meters that know nothing and are kept in no file.
func New(o Options) *Meters {
	if o.Interval == nil {
		o.Interval = func() time.Duration { return time.Second }
	}
	if o.Label == nil {
		o.Label = func(service, _ string) string { return service }
	}
	if o.User == nil {
		o.User = func(name string) string { return name }
	}
	return &Meters{
		Options: o, file: newState(""), volatile: true, divided: make(chan struct{}, 1), devices: map[string]*unit{}, leases: map[uint64]*use{},
		accounts: map[Account]Amount{}, perUser: map[string]int{}, turns: map[Account]uint64{}, services: newSums(), users: newSums(),
	}
}

// gap returns the longest time between two samples that leaves no gap.
func (ms *Meters) gap() time.Duration { return 3*ms.Interval() + 3*time.Second }

// Observe records a sample of a device, and the processes on it and on its instances. An
// instance has no energy of its own: it is part of its device.
func (ms *Meters) Observe(on gpu.Device, s *gpu.Sample, here []Process) {
	if on.Parent != "" {
		return
	}
	gap := ms.gap() // before mu is locked: it is the caller's code
	ms.mu.Lock()
	defer ms.mu.Unlock()
	u := ms.devices[on.UUID]
	if u == nil {
		u = &unit{}
		ms.devices[on.UUID] = u
	}
	if s.Time.Equal(u.Last.At) {
		return // the device did not answer, so this sample is an old one
	}
	elapsed := min(s.Time.Sub(u.Last.At), gap).Seconds()
	parties := ms.parties(on.UUID, here)
	booking := u.Observe(Reading{
		At: s.Time, Power: s.Power, Most: on.PowerLimit.Or(0), Gap: gap, Shares: u.shares(s, parties),
		Counter: joulesOf(s.Energy), CounterAt: s.SlowTime,
	})
	ms.credit(booking, elapsed, s.Utilization.Or(1) > 0)
	u.draw(booking, elapsed)
	if len(parties) > 1 && ms.Busy != nil && s.Time.Sub(u.asked) >= askEvery {
		select {
		case ms.divided <- struct{}{}:
		default: // Run is about to ask anyway
		}
	}
}

func joulesOf(counter gpu.Opt[float64]) gpu.Opt[gpu.Joules] {
	if j, known := counter.Get(); known {
		return gpu.Some(gpu.Joules(j))
	}
	return gpu.Opt[gpu.Joules]{}
}

// parties returns the processes of each party on a device. The caller holds mu.
func (ms *Meters) parties(uuid string, here []Process) map[Party][]int {
	parties := map[Party][]int{}
	for _, p := range here {
		party := Others
		if p.Lease != nil && !ms.left(p.Lease.Fence).Known() && !slices.Contains(ms.unmet, p.Lease.Fence) {
			party = Party(p.Lease.Fence)
			ms.meet(p.Lease, uuid)
		}
		parties[party] = append(parties[party], p.PID)
	}
	return parties
}

// meet records that processes of a lease are on a device. The caller holds mu.
func (ms *Meters) meet(l *lease.Lease, uuid string) {
	u := ms.leases[l.Fence]
	if u == nil {
		u = &use{ID: l.ID, Account: ms.account(Account{User: l.Holder.User, Service: l.Holder.Service, Name: l.Holder.Name})}
		ms.leases[l.Fence] = u
		ms.file.Change(writeEvery)
	}
	if !slices.Contains(u.devices, uuid) {
		u.devices = append(u.devices, uuid)
	}
}

// account returns the account to book energy to. If a user makes up more names than fit,
// those that were not used for the longest time go to one account, and the same holds for
// all users together. The caller holds mu.
func (ms *Meters) account(a Account) Account {
	if _, known := ms.accounts[a]; !known {
		for ms.perUser[a.User] >= mostPerUser && ms.fold(a.User) {
		}
		for len(ms.accounts) >= mostAccounts && ms.fold(ms.greediest()) {
		}
		switch {
		case ms.perUser[a.User] >= mostPerUser:
			a = Account{User: a.User}
		case len(ms.accounts) >= mostAccounts:
			a = Account{}
		}
	}
	ms.add(a, 0)
	ms.turn++
	ms.turns[a] = ms.turn
	return a
}

// add adds to an account. The caller holds mu.
func (ms *Meters) add(a Account, amount Amount) {
	if _, known := ms.accounts[a]; !known {
		ms.perUser[a.User]++
	}
	ms.accounts[a] += amount
}

// fold adds the account of a user that was not used for the longest time to the one
// without a name. It reports false if none is left that no lease uses. The caller holds mu.
func (ms *Meters) fold(user string) bool {
	rest := Account{User: user}
	stays := map[Account]bool{rest: true}
	for _, u := range ms.leases {
		stays[u.Account] = true
	}
	oldest := rest
	for a := range ms.accounts {
		if a.User == user && !stays[a] && (oldest == rest || ms.turns[a] < ms.turns[oldest]) {
			oldest = a
		}
	}
	if oldest == rest || ms.perUser[user] < 2 {
		return false
	}
	ms.add(rest, ms.accounts[oldest])
	delete(ms.accounts, oldest)
	delete(ms.turns, oldest)
	ms.perUser[user]--
	return true
}

// greediest returns the user with the most accounts. The caller holds mu.
func (ms *Meters) greediest() (user string) {
	for each, n := range ms.perUser {
		if most := ms.perUser[user]; n > most || n == most && each < user {
			user = each
		}
	}
	return user
}

// credit adds the energy that leases used in some seconds. The caller holds mu.
func (ms *Meters) credit(booking Booking, seconds float64, working bool) {
	for fence, amount := range booking {
		u := ms.leases[fence]
		if u == nil {
			continue // the sum of the leases of the device includes it
		}
		u.Energy += amount
		if working {
			u.Work += amount
			u.Seconds += seconds
		}
		ms.accounts[u.Account] += amount
		ms.services.add(ms.Label(u.Account.Service, u.Account.User), amount)
		ms.users.add(ms.User(u.Account.User), amount)
	}
}

// lately is the time over which the draw of a lease is averaged, in seconds.
const lately = 10

// draw records the power of leases over some seconds.
func (u *unit) draw(booking Booking, seconds float64) {
	if seconds <= 0 {
		return
	}
	share := -math.Expm1(-seconds / lately)
	drew := map[uint64]float64{}
	for fence, amount := range booking {
		now := float64(amount.Joules()) / seconds
		before, known := u.draws[fence]
		if !known {
			before = now
		}
		drew[fence] = before + share*(now-before)
	}
	u.draws = drew
}

// Draw returns the recent power of a lease on a device, above what the idle device draws.
// It is absent if not known.
func (ms *Meters) Draw(fence uint64, uuid string) gpu.Opt[gpu.Watts] {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if u := ms.devices[uuid]; u != nil {
		if watts, known := u.draws[fence]; known {
			return gpu.Some(gpu.Watts(watts))
		}
	}
	return gpu.Opt[gpu.Watts]{}
}

// Lease returns the energy that a lease has used up to now, or until it ended a moment
// ago. It is absent if nothing was measured.
func (ms *Meters) Lease(fence uint64) gpu.Opt[gpu.Joules] {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if u := ms.leases[fence]; u != nil {
		return u.joules()
	}
	return ms.left(fence)
}

// left returns the energy of a lease that has just ended. It is absent if there is no
// such lease. The caller holds mu.
func (ms *Meters) left(fence uint64) gpu.Opt[gpu.Joules] {
	if i := slices.IndexFunc(ms.gone, func(e ended) bool { return e.fence == fence }); i >= 0 {
		return gpu.Some(ms.gone[i].used)
	}
	return gpu.Opt[gpu.Joules]{}
}

// Close returns the energy that an ending lease has used up to this moment. It does not
// change any more.
func (ms *Meters) Close(fence uint64, at time.Time) gpu.Opt[gpu.Joules] {
	gap := ms.gap()
	ms.mu.Lock()
	defer ms.mu.Unlock()
	u := ms.leases[fence]
	if u == nil {
		return gpu.Opt[gpu.Joules]{}
	}
	for _, uuid := range u.devices {
		seconds := at.Sub(ms.devices[uuid].Last.At).Seconds()
		ms.credit(ms.devices[uuid].Leave(fence, at, gap), max(seconds, 0), true)
	}
	u.devices = nil
	if !ms.left(fence).Known() {
		ms.gone = append(ms.gone, ended{fence, u.Energy.Joules()})
		ms.gone = ms.gone[max(len(ms.gone)-mostGone, 0):]
	}
	return u.joules()
}

// Ended returns the energy and power of a lease that has ended, and forgets the lease.
func (ms *Meters) Ended(l *lease.Lease, at time.Time) Used {
	used := Used{Joules: ms.Close(l.Fence, at)}
	ms.mu.Lock()
	defer ms.mu.Unlock()
	switch u := ms.leases[l.Fence]; {
	case u == nil: // a sample under way may still have it
		ms.unmet = append(ms.unmet, l.Fence)
		ms.unmet = ms.unmet[max(len(ms.unmet)-mostGone, 0):]
	case u.Seconds >= leastWork:
		used.Watts = gpu.Some(gpu.Watts(float64(u.Work.Joules()) / u.Seconds))
	}
	delete(ms.leases, l.Fence)
	return used
}

func (u *use) joules() gpu.Opt[gpu.Joules] { return gpu.Some(u.Energy.Joules()) }

// Device is the energy of a device since it was first measured.
type Device struct {
	GPU                         string // UUID
	Total, Idle, Others, Leases gpu.Joules
	IdlePower                   gpu.Watts // power of the idle device; 0 if not known yet
	Since                       time.Time
	Unmeasured                  time.Duration // part of the time since then that was not measured
	Counted                     bool          // the driver counts energy
}

// Devices returns every measured device, ordered by UUID.
func (ms *Meters) Devices() []Device {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	list := []Device{}
	for uuid, u := range ms.devices {
		if u.Total == 0 && !u.Last.Power.Known() && !u.Counted {
			continue
		}
		list = append(list, Device{
			GPU: uuid, Total: u.Total.Joules(), Idle: u.Idle.Joules(), Others: u.Others.Joules(), Leases: u.Leases.Joules(),
			IdlePower: u.Baseline.Watts, Since: u.Since, Unmeasured: time.Duration(u.Unmeasured * float64(time.Second)), Counted: u.Counted,
		})
	}
	slices.SortFunc(list, func(a, b Device) int { return strings.Compare(a.GPU, b.GPU) })
	return list
}

// Share is the energy that leases used for an account.
type Share struct {
	Account
	Joules gpu.Joules
}

// Accounts returns for whom leases used energy, the most first.
func (ms *Meters) Accounts() []Share {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	list := make([]Share, 0, len(ms.accounts))
	for a, amount := range ms.accounts {
		if amount > 0 {
			list = append(list, Share{a, amount.Joules()})
		}
	}
	slices.SortFunc(list, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Joules, a.Joules), strings.Compare(a.User, b.User), strings.Compare(a.Service, b.Service), strings.Compare(a.Name, b.Name))
	})
	return list
}

// Services returns the energy that leases used since berth began to count, by the label of
// their service: of those that used some since the daemon started. With a file, it returns
// what is in the file. So the daemon that comes after one that was killed never returns
// less, and counts nothing again that was stored.
func (ms *Meters) Services() map[string]gpu.Joules { return ms.shown(&ms.services) }

// Users returns the same by the label of their user.
func (ms *Meters) Users() map[string]gpu.Joules { return ms.shown(&ms.users) }

// ServiceBefore returns what earlier daemons have added up for the label of a service.
func (ms *Meters) ServiceBefore(label string) gpu.Joules { return ms.services.before[label].Joules() }

// UserBefore returns the same for the label of a user.
func (ms *Meters) UserBefore(label string) gpu.Joules { return ms.users.before[label].Joules() }

func (ms *Meters) shown(s *sums) map[string]gpu.Joules {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	amounts := s.kept
	if ms.volatile {
		amounts = s.now
	}
	found := make(map[string]gpu.Joules, len(amounts))
	for label, amount := range amounts {
		found[label] = amount.Joules()
	}
	return found
}
