// Package joules keeps how much energy devices and leases used, and for whom,
// across restarts.
//
// Package energy works it out; this package remembers it.
//
// It learns from the samples of the monitor and asks the driver for one thing
// only: what each process had of a device, while processes of several leases are
// on it.
package joules

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/history/energy"
	"github.com/berth-gpu/berth/internal/lease"
)

const (
	mostAccounts = 1000 // accounts of all users
	mostPerUser  = 100  // accounts of one user
	mostGone     = 256  // leases that have just ended
	leastWork    = 3.0  // seconds of work from which an average power is worth remembering
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
	Lease *lease.Lease // nil: it is under no lease
}

// Used is what a lease used.
type Used struct {
	Joules gpu.Opt[gpu.Joules] // absent: nothing was measured
	Watts  gpu.Opt[gpu.Watts]  // on each device, on average, above what the device draws by itself, while it worked
}

// Options are what a Keeper is made from. All may be missing.
type Options struct {
	// Interval returns the time from one sample to the next.
	Interval func() time.Duration
	// Busy asks a device what its processes had of it since a moment.
	Busy func(ctx context.Context, uuid string, since time.Time) (device.Busy, error)
	// Label returns the label under which metrics show a service of a user.
	Label func(service, user string) string
}

// Keeper keeps the energy of devices and leases. Use New or Open to make one.
type Keeper struct {
	Options
	path    string        // empty: it is not kept
	divided chan struct{} // has room for one: somebody should ask how a device is divided

	mu       sync.Mutex // guards what follows
	devices  map[string]*unit
	leases   map[uint64]*use // those that stand, by fence
	gone     []ended         // the leases that ended last, the newest at the end
	accounts map[Account]energy.Amount
	perUser  map[string]int // accounts
	services map[string]energy.Amount
}

// unit is a device, and what was last known about its processes.
type unit struct {
	energy.Device
	busy  device.Busy
	asked time.Time          // when the driver was last asked for busy
	draws map[uint64]float64 // watts above idle that each lease drew lately, by fence
}

// ended is a lease that has just ended.
type ended struct {
	fence uint64
	used  gpu.Joules
}

// use is what a lease has used.
type use struct {
	ID      string        `json:"id"`
	Account Account       `json:"account"`
	Energy  energy.Amount `json:"energy_uj"`
	Work    energy.Amount `json:"work_uj"` // while the device worked
	Seconds float64       `json:"work_seconds"`

	devices []string
}

// New returns a keeper that knows nothing and is kept in no file.
func New(o Options) *Keeper {
	if o.Interval == nil {
		o.Interval = func() time.Duration { return time.Second }
	}
	if o.Label == nil {
		o.Label = func(service, _ string) string { return service }
	}
	return &Keeper{
		Options: o, divided: make(chan struct{}, 1), devices: map[string]*unit{}, leases: map[uint64]*use{},
		accounts: map[Account]energy.Amount{}, perUser: map[string]int{}, services: map[string]energy.Amount{},
	}
}

// gap returns the longest time between two samples that leaves no gap.
func (k *Keeper) gap() time.Duration { return 3*k.Interval() + 3*time.Second }

// Observe takes in a sample of a device, and the processes on it and on its
// instances. An instance has no energy of its own: it is part of its device.
func (k *Keeper) Observe(on gpu.Device, s *gpu.Sample, here []Process) {
	if on.Parent != "" {
		return
	}
	gap := k.gap() // before the lock: it is somebody else's
	k.mu.Lock()
	defer k.mu.Unlock()
	u := k.devices[on.UUID]
	if u == nil {
		u = &unit{}
		k.devices[on.UUID] = u
	}
	if s.Time.Equal(u.Last.At) {
		return // the device did not answer: this sample was here before
	}
	elapsed := min(s.Time.Sub(u.Last.At), gap).Seconds()
	parties := k.parties(on.UUID, here)
	booking := u.Observe(energy.Reading{
		At: s.Time, Power: s.Power, Most: on.PowerLimit.Or(0), Gap: gap, Shares: u.shares(s, parties),
		Counter: joulesOf(s.Energy), CounterAt: s.SlowTime,
	})
	k.credit(booking, elapsed, s.Utilization.Or(1) > 0)
	u.draw(booking, elapsed)
	if len(parties) > 1 && k.Busy != nil && s.Time.Sub(u.asked) >= askEvery {
		select {
		case k.divided <- struct{}{}:
		default: // it is going to be asked anyway
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
func (k *Keeper) parties(uuid string, here []Process) map[energy.Party][]int {
	parties := map[energy.Party][]int{}
	for _, p := range here {
		party := energy.Others
		if p.Lease != nil && !k.left(p.Lease.Fence).Known() {
			party = energy.Party(p.Lease.Fence)
			k.meet(p.Lease, uuid)
		}
		parties[party] = append(parties[party], p.PID)
	}
	return parties
}

// meet remembers a lease whose processes are on a device. The caller holds mu.
func (k *Keeper) meet(l *lease.Lease, uuid string) {
	u := k.leases[l.Fence]
	if u == nil {
		u = &use{ID: l.ID, Account: k.account(Account{User: l.Holder.User, Service: l.Holder.Service, Name: l.Holder.Name})}
		k.leases[l.Fence] = u
	}
	if !slices.Contains(u.devices, uuid) {
		u.devices = append(u.devices, uuid)
	}
}

// account returns the account that energy is booked to. A user who makes up more
// names than fit has the rest in one account, and so have all users together. The
// caller holds mu.
func (k *Keeper) account(a Account) Account {
	_, known := k.accounts[a]
	switch {
	case known:
		return a
	case k.perUser[a.User] >= mostPerUser:
		a = Account{User: a.User}
	case len(k.accounts) >= mostAccounts:
		a = Account{}
	}
	if _, known := k.accounts[a]; !known {
		k.accounts[a] = 0
		k.perUser[a.User]++
	}
	return a
}

// credit adds what leases used in some seconds. The caller holds mu.
func (k *Keeper) credit(booking energy.Booking, seconds float64, working bool) {
	for fence, amount := range booking {
		u := k.leases[fence]
		if u == nil {
			continue // the device has it in the sum of its leases
		}
		u.Energy += amount
		if working {
			u.Work += amount
			u.Seconds += seconds
		}
		k.accounts[u.Account] += amount
		k.services[k.Label(u.Account.Service, u.Account.User)] += amount
	}
}

// lately is the time over which the draw of a lease is averaged, in seconds.
const lately = 10

// draw notes what leases drew in some seconds.
func (u *unit) draw(booking energy.Booking, seconds float64) {
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

// Draw returns what a lease drew lately of a device, above what the device draws
// by itself; absent if that is not known.
func (k *Keeper) Draw(fence uint64, uuid string) gpu.Opt[gpu.Watts] {
	k.mu.Lock()
	defer k.mu.Unlock()
	if u := k.devices[uuid]; u != nil {
		if watts, known := u.draws[fence]; known {
			return gpu.Some(gpu.Watts(watts))
		}
	}
	return gpu.Opt[gpu.Watts]{}
}

// Lease returns what a lease has used up to now, or until it ended a moment ago;
// absent if nothing was measured.
func (k *Keeper) Lease(fence uint64) gpu.Opt[gpu.Joules] {
	k.mu.Lock()
	defer k.mu.Unlock()
	if u := k.leases[fence]; u != nil {
		return u.joules()
	}
	return k.left(fence)
}

// left returns what a lease used that has just ended; absent if it is not one.
// The caller holds mu.
func (k *Keeper) left(fence uint64) gpu.Opt[gpu.Joules] {
	if i := slices.IndexFunc(k.gone, func(e ended) bool { return e.fence == fence }); i >= 0 {
		return gpu.Some(k.gone[i].used)
	}
	return gpu.Opt[gpu.Joules]{}
}

// Close returns what a lease that is ending used, up to this moment. Its energy
// does not change any more.
func (k *Keeper) Close(fence uint64, at time.Time) gpu.Opt[gpu.Joules] {
	gap := k.gap()
	k.mu.Lock()
	defer k.mu.Unlock()
	u := k.leases[fence]
	if u == nil {
		return gpu.Opt[gpu.Joules]{}
	}
	for _, uuid := range u.devices {
		seconds := at.Sub(k.devices[uuid].Last.At).Seconds()
		k.credit(k.devices[uuid].Leave(fence, at, gap), max(seconds, 0), true)
	}
	u.devices = nil
	if !k.left(fence).Known() {
		k.gone = append(k.gone, ended{fence, u.Energy.Joules()})
		k.gone = k.gone[max(len(k.gone)-mostGone, 0):]
	}
	return u.joules()
}

// Ended returns what a lease used that has ended, and forgets the lease.
func (k *Keeper) Ended(l *lease.Lease, at time.Time) Used {
	used := Used{Joules: k.Close(l.Fence, at)}
	k.mu.Lock()
	defer k.mu.Unlock()
	if u := k.leases[l.Fence]; u != nil && u.Seconds >= leastWork {
		used.Watts = gpu.Some(gpu.Watts(float64(u.Work.Joules()) / u.Seconds))
	}
	delete(k.leases, l.Fence)
	return used
}

func (u *use) joules() gpu.Opt[gpu.Joules] { return gpu.Some(u.Energy.Joules()) }

// Device is what a device used since it was first measured.
type Device struct {
	GPU                         string // UUID
	Total, Idle, Others, Leases gpu.Joules
	IdlePower                   gpu.Watts // what it draws by itself; 0: not known yet
	Since                       time.Time
	Unmeasured                  time.Duration // how much of the time since then was not measured
	Counted                     bool          // the driver counts
}

// Devices returns every device of which something was measured, by UUID.
func (k *Keeper) Devices() []Device {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := []Device{}
	for uuid, u := range k.devices {
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

// Share is what leases used for somebody.
type Share struct {
	Account
	Joules gpu.Joules
}

// Accounts returns for whom leases used energy, the most first.
func (k *Keeper) Accounts() []Share {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := make([]Share, 0, len(k.accounts))
	for a, amount := range k.accounts {
		if amount > 0 {
			list = append(list, Share{a, amount.Joules()})
		}
	}
	slices.SortFunc(list, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Joules, a.Joules), strings.Compare(a.User, b.User), strings.Compare(a.Service, b.Service), strings.Compare(a.Name, b.Name))
	})
	return list
}

// Services returns what leases used since the daemon started, by the label of
// their service.
func (k *Keeper) Services() map[string]gpu.Joules {
	k.mu.Lock()
	defer k.mu.Unlock()
	sums := make(map[string]gpu.Joules, len(k.services))
	for label, amount := range k.services {
		sums[label] = amount.Joules()
	}
	return sums
}
