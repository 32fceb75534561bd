package slice

import (
	"cmp"
	"slices"
	"sync"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/kubernetes/words"
)

// maxShares is the most fixed shares of a device: as many as fit into one slice.
const maxShares = MaxDevices

// forget is how long the publisher lists a device that the daemon no longer lists and no
// claim has.
const forget = 10 * time.Minute

// Publisher decides what to publish for one node. Several goroutines may call its
// methods.
type Publisher struct {
	node string

	mu        sync.Mutex
	devices   map[string]*device // by UUID
	names     map[string]string  // UUID by published name of the device
	held      []string           // published names that prepared claims have
	last      []resourcev1.Device
	health    []Health
	published bool
}

// device is the publisher's record of one device.
type device struct {
	name   string
	status api.Status // the newest
	room   api.DeviceAvailable
	use    use
	least  gpu.MiB
	roots  map[string]string
	gone   time.Time // since when the daemon does not list it; zero while it does
	lost   time.Time // since when the daemon says that it is lost

	memory, slots, alone steady // alone is 1 without leases that are not for claims
	shares, size         steady // of fixed shares

	about   string // the subjects of message
	message string
}

// New returns a publisher for a node that has not published anything yet.
func New(node string) *Publisher {
	return &Publisher{node: node, devices: map[string]*device{}, names: map[string]string{}}
}

// Next returns the devices to publish, in their order, and whether they differ from its
// last result. It reports no difference until it has heard of a device: an empty list
// would remove the devices of an earlier driver.
func (p *Publisher) Next(now time.Time, f Facts, s Shape) (devices []resourcev1.Device, changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.Silent == 0 {
		p.observe(now, f)
	}
	if len(p.devices) == 0 && !p.published {
		return nil, false
	}
	list := p.list(now, f.Silent, s)
	changed = !p.published || !equality.Semantic.DeepEqual(list, p.last)
	p.last, p.published = list, true
	return copied(list), changed
}

func copied(list []resourcev1.Device) []resourcev1.Device {
	out := make([]resourcev1.Device, len(list))
	for i := range list {
		list[i].DeepCopyInto(&out[i])
	}
	return out
}

// observe records the facts from the daemon.
func (p *Publisher) observe(now time.Time, f Facts) {
	room := map[string]api.DeviceAvailable{}
	for _, a := range f.Available {
		room[a.GPU] = a
	}
	leases := uses(f.Leases)
	p.held = f.Held
	seen := map[string]bool{}
	for _, s := range f.Status {
		uuid := s.Device.UUID
		d := p.devices[uuid]
		a, known := room[uuid]
		if uuid == "" || !known && d == nil {
			continue
		}
		seen[uuid] = true
		if d == nil {
			d = &device{name: DeviceName(uuid)}
			p.devices[uuid], p.names[d.name] = d, uuid
		}
		d.observe(now, s)
		if known && (d.lost.IsZero() || d.room.GPU == "") {
			d.room = a // a lost device keeps its last facts
		}
		d.use, d.least, d.roots = leases[uuid], f.Context, f.Roots
		d.measure(now)
	}
	for uuid, d := range p.devices {
		if seen[uuid] {
			continue
		}
		if d.use = leases[uuid]; d.gone.IsZero() {
			d.gone = now
		}
		if d.use.own == 0 && now.Sub(d.gone) >= forget {
			delete(p.devices, uuid)
			delete(p.names, d.name)
		}
	}
}

// observe records the state of the device.
func (d *device) observe(now time.Time, s api.Status) {
	facts := d.status.Device
	d.gone = time.Time{}
	if s.StateCause != causeLost {
		d.lost, d.status = time.Time{}, s
		return
	}
	if d.lost.IsZero() {
		d.lost = now
	}
	if !s.Since.IsZero() && s.Since.Before(d.lost) {
		d.lost = s.Since
	}
	slots := d.status.Slots
	d.status = s
	if facts.UUID != "" {
		d.status.Device, d.status.Slots = facts, slots
	}
}

// measure follows how much of the device claims can have.
func (d *device) measure(now time.Time) {
	if !d.lost.IsZero() && d.memory.known {
		return
	}
	percent := int64(ceiling(d.room)) / 100
	memory, slots := int64(memoryFor(d.room, d.use)), int64(slotsFor(d.status, d.use))
	d.memory.follow(now, memory, percent)
	d.slots.follow(now, slots, 1)
	alone := int64(1)
	if d.use.leases > 0 {
		alone = 0
	}
	d.alone.follow(now, alone, 1)

	shares := min(slots, maxShares)
	switch { // a claim has one of them, and it is not known which
	case d.use.own > 0 && d.shares.known:
		shares = max(shares, d.shares.value)
	case d.use.own > 0:
		shares = min(int64(d.status.Slots.Capacity), maxShares)
	}
	shares = d.shares.follow(now, shares, 1)
	if free := shares - int64(d.use.ownSlots); free > 0 {
		d.size.follow(now, max(memory-int64(d.use.ownMemory), 0)/free, percent/shares)
	}
}

// list returns the devices to publish.
func (p *Publisher) list(now time.Time, silent time.Duration, s Shape) []resourcev1.Device {
	order := make([]*device, 0, len(p.devices))
	for _, d := range p.devices {
		order = append(order, d)
	}
	slices.SortFunc(order, func(a, b *device) int {
		return cmp.Or(cmp.Compare(b.alone.value, a.alone.value), cmp.Compare(a.status.Device.Index, b.status.Device.Index), cmp.Compare(a.name, b.name))
	})
	var list []resourcev1.Device
	p.health = p.health[:0:0]
	for _, d := range order {
		bad := d.troubles(now, silent, s, "The berth daemon on node "+p.node+" does not answer.")
		if d.use.own == 0 && (len(d.status.Device.Instances) > 0 || !s.Taints && closed(bad)) {
			continue
		}
		state, text := healthOf(bad)
		if about := summary(bad); about != d.about || d.message == "" {
			d.about, d.message = about, text
		}
		devices := d.published(s, bad)
		if !s.Taints && closed(bad) {
			devices = p.keepHeld(d, devices)
		}
		for _, one := range devices {
			list = append(list, one)
			p.health = append(p.health, Health{Device: one.Name, State: state, Message: d.message})
		}
	}
	return list
}

// keepHeld leaves out the shares of a device that no claim has. It leaves out none while
// it knows of fewer held shares than there are leases for claims.
func (p *Publisher) keepHeld(d *device, shares []resourcev1.Device) []resourcev1.Device {
	var kept []resourcev1.Device
	for _, one := range shares {
		if slices.Contains(p.held, one.Name) {
			kept = append(kept, one)
		}
	}
	if len(kept) < d.use.own {
		return shares
	}
	return kept
}

// troubles lists the troubles of the device. away says that the daemon is silent.
func (d *device) troubles(now time.Time, silent time.Duration, s Shape, away string) []trouble {
	const schedule = resourcev1.DeviceTaintEffectNoSchedule
	var list []trouble
	if d.gone.IsZero() {
		list = troubles(now, d.status, d.lost, s.Quarantine)
	} else {
		list = []trouble{{key: words.Silent, effect: schedule, health: gpu.HealthUnknown, text: "The daemon no longer lists the device."}}
	}
	if len(d.status.Device.Instances) > 0 && d.status.Drain == nil {
		list = append(list, trouble{key: words.Drain, value: "mig", effect: schedule, health: gpu.Healthy})
	}
	switch {
	case silent >= Patience:
		list = append(list, trouble{key: words.Away, effect: schedule, health: gpu.HealthUnknown, text: away})
	case silent > 0:
		list = append(list, trouble{health: gpu.HealthUnknown, text: away})
	}
	return list
}

// published returns the device for the API server: whole, or as its fixed shares.
func (d *device) published(s Shape, bad []trouble) []resourcev1.Device {
	var marks []resourcev1.DeviceTaint
	if s.Taints {
		marks = taints(bad)
	}
	facts := func(name string) resourcev1.Device {
		return resourcev1.Device{Name: name, Attributes: attributes(d.status.Device, d.roots), Taints: slices.Clone(marks)}
	}
	known := d.room.Total > 0
	if s.Consumable {
		one := facts(d.name)
		several := true
		one.AllowMultipleAllocations = &several
		one.Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{words.Slots: slotCapacity(int(d.slots.value))}
		if known {
			one.Capacity[words.Memory] = memoryCapacity(gpu.MiB(d.memory.value), d.least)
		}
		return []resourcev1.Device{one}
	}
	if known && d.use.own == 0 && gpu.MiB(d.size.value) < max(d.least, 1) {
		return nil // a pod could not use it
	}
	list := make([]resourcev1.Device, 0, d.shares.value)
	for n := range int(d.shares.value) {
		one := facts(shareName(d.name, n))
		one.Capacity = shareCapacities(gpu.MiB(d.size.value), known)
		list = append(list, one)
	}
	return list
}

// Find returns the share that a published name stands for. It knows fixed shares and
// whole devices, whatever shape was published last, because claims outlive it.
func (p *Publisher) Find(name string) (Share, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if uuid, found := p.names[name]; found {
		d := p.devices[uuid]
		return Share{UUID: uuid, Device: d.status.Device, Memory: gpu.MiB(d.memory.value), Slots: int(d.slots.value)}, true
	}
	base, n, ok := cutShare(name)
	uuid, found := p.names[base]
	if !ok || !found {
		return Share{}, false
	}
	d := p.devices[uuid]
	if int64(n) >= max(d.shares.value, min(int64(d.status.Slots.Capacity), maxShares)) {
		return Share{}, false
	}
	return Share{UUID: uuid, Device: d.status.Device, Memory: gpu.MiB(d.size.value), Slots: 1, Fixed: true}, true
}

// Health returns the health of each published device, in the order of publication.
func (p *Publisher) Health() []Health {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.health)
}
