package placement

import (
	"math"
	"slices"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/queue"
)

// Choose picks the devices for a request and appends their UUIDs to chosen, in the order
// of their index. If the request does not fit, Choose returns chosen unchanged and false;
// Explain then says why. The caller must have checked that no number in the request is
// negative.
func Choose(s *Snapshot, r *lease.Request, gate Gate, chosen []string) ([]string, bool) {
	n := s.needOf(r, gate)
	if r.Devices() == 1 {
		at := s.one(&n)
		if at < 0 {
			return chosen, false
		}
		return append(chosen, s.devices[at].UUID), true
	}
	set := s.several(&n, r.GPUs)
	if set == nil {
		return chosen, false
	}
	for _, at := range set {
		chosen = append(chosen, s.devices[at].UUID)
	}
	return chosen, true
}

// need is a request prepared for the scan, with names looked up and constraints judged
// once per model of device.
type need struct {
	memory gpu.MiB
	slots  int
	alone  bool // the request wants its devices alone
	keys   []Key
	lows   []Key // the least key of each block
	apart  bool  // the fewer leases of the service a device has, the better

	heeds bool    // devices that stay below temp_normal come first
	draw  float32 // watts that the request adds to the power of a device
	hot   bool    // a device was left out because it gets too hot

	pinned    bool
	pin       int    // position of the only device allowed; -1 if it is not on this machine
	preferred int    // position; -1 if there is none
	models    []bool // which models meet the constraints; nil if all do
	only      []bool // by position: which devices are allowed; nil if all are
	plain     bool   // every device with room is allowed
	runs      presence
	gate      Gate
}

func (s *Snapshot) needOf(r *lease.Request, gate Gate) need {
	at := indexOf(r.Policy)
	policy := &policies[at]
	n := need{
		memory: r.Load().Memory, slots: r.Slots, alone: r.Exclusive,
		keys: s.keys[at], lows: s.lows[at], apart: policy.apart || !r.Together,
		heeds: !policy.fills, draw: float32(r.Draw.Or(0)),
		pin: -1, preferred: -1, gate: gate,
	}
	if r.Preferred != "" {
		n.preferred = s.lookup(r.Preferred)
	}
	if service := r.Holder.Service; service != "" {
		n.runs = s.services[service]
	}
	if len(r.Only) > 0 {
		n.only = s.among(r.Only)
	}
	if r.Where != (gpu.Where{}) {
		n.models = s.judge(&r.Where)
		if n.pinned = r.Where.GPU != ""; n.pinned {
			n.pin = s.pinned(&r.Where)
		}
	}
	n.plain = n.models == nil && gate == nil && n.only == nil && !n.alone
	return n
}

func (s *Snapshot) lookup(uuid string) int {
	if i, ok := s.position[uuid]; ok {
		return i
	}
	return -1
}

// pinned returns the position of the one device that constraints allow, or -1 if it is
// not here.
func (s *Snapshot) pinned(w *gpu.Where) int {
	if i, ok := s.position[w.GPU]; ok { // nearly always
		return i
	}
	for i := range s.devices {
		if w.Allows(s.devices[i].UUID, s.devices[i].Index) {
			return i
		}
	}
	return -1
}

// among marks devices by position. The result lies in scratch space and is valid until
// the next call.
func (s *Snapshot) among(uuids []string) []bool {
	clear(s.scratch.only)
	for _, uuid := range uuids {
		if i, ok := s.position[uuid]; ok {
			s.scratch.only[i] = true
		}
	}
	return s.scratch.only
}

// hasRoom reports whether a device has room for the request.
func (s *Snapshot) hasRoom(n *need, i int) bool {
	return s.room[i] >= n.memory && int(s.free[i]) >= n.slots && !(n.alone && s.use[i].Leases > 0)
}

// meets reports whether the request allows the device.
func (s *Snapshot) meets(n *need, i int) bool {
	return (n.models == nil || n.models[s.model[i]]) && (!n.pinned || i == n.pin) && (n.only == nil || n.only[i])
}

// refusal returns why the gate refuses a device that fits, or "" if it does not.
func (s *Snapshot) refusal(n *need, i int) string {
	if n.gate == nil {
		return ""
	}
	claim := lease.Load{Memory: n.memory, Slots: n.slots}
	if n.alone {
		claim = queue.Whole
	}
	return n.gate.Refuse(s.devices[i].UUID, claim)
}

// takes reports whether a device meets all hard conditions.
func (s *Snapshot) takes(n *need, i int) bool {
	return s.hasRoom(n, i) && s.meets(n, i) && s.refusal(n, i) == ""
}

// one chooses a single device. It returns -1 if none fits.
func (s *Snapshot) one(n *need) int {
	if n.pinned {
		if n.pin >= 0 && s.takes(n, n.pin) {
			return n.pin
		}
		return -1
	}
	if n.preferred >= 0 && s.takes(n, n.preferred) {
		return n.preferred
	}
	at := s.coolest(n)
	if at < 0 && n.hot { // devices that get too hot are better than none
		n.heeds = false
		at = s.coolest(n)
	}
	return at
}

// coolest chooses by affinity and policy among the devices that stay below temp_normal,
// or among all if the request does not heed that. It returns -1 if none fits.
func (s *Snapshot) coolest(n *need) int {
	if !n.apart {
		if at := s.beside(n); at >= 0 {
			return at
		}
	}
	return s.scan(n)
}

// scan chooses the device with the smallest key. It compares keys first, those of whole
// blocks before those of devices, because nearly all devices fail there and need no
// further check.
func (s *Snapshot) scan(n *need) int {
	best, at := noKey, -1
	memory, slots := n.memory, n.slots
	plain := n.plain && !n.heeds && !(n.apart && len(n.runs) > 0)
	for b, low := range n.lows {
		if low >= best {
			continue
		}
		from := b * block
		keys := n.keys[from:min(from+block, len(n.keys))]
		room, free := s.room[from:][:len(keys)], s.free[from:][:len(keys)]
		for i, key := range keys {
			if key >= best || room[i] < memory || int(free[i]) < slots {
				continue
			}
			if plain || s.stands(n, from+i) {
				best, at = key, from+i
			}
		}
	}
	if at < 0 && n.apart {
		return s.beside(n)
	}
	return at
}

// stands reports whether a device takes the request and does not get too hot. If the
// leases of a service are kept apart, the device must have none of the same service.
func (s *Snapshot) stands(n *need, i int) bool {
	return !s.warm(n, i) && !(n.apart && n.runs.leases(i) > 0) && s.takes(n, i)
}

// beside chooses among the devices on which the service runs: by the policy or, if the
// leases of the service are kept apart, those with the fewest of them first.
func (s *Snapshot) beside(n *need) int {
	best, at, fewest := noKey, -1, int32(math.MaxInt32)
	for _, d := range n.runs {
		i := int(d.position)
		better := n.keys[i] < best
		if n.apart && d.leases != fewest {
			better = d.leases < fewest
		}
		if better && !s.warm(n, i) && s.takes(n, i) {
			best, at, fewest = n.keys[i], i, d.leases
		}
	}
	return at
}

// Gate refuses devices that fit a request, because the request might delay another one
// ahead in the queue. A nil Gate refuses nothing.
type Gate interface {
	// Refuse returns why the request must not take a device that fits, or "" if it may.
	// Claim is what the request would leave to nobody else there: Explain also asks about
	// less than the request does. A gate that refuses an amount refuses every larger one
	// too. Choose calls Refuse only for devices that it would take otherwise.
	Refuse(uuid string, claim lease.Load) string

	// Allow returns how much of an amount on each device the request may have, devices
	// aside; zero if nothing. It is for advice only: LargestNow passes its result through
	// it.
	Allow(memory gpu.MiB) gpu.MiB
}

// Could reports whether a device could be one of the devices of a request if nobody held
// anything and the device were well. A Gate may call it during a decision: it does not
// touch the scratch space of that decision.
func (s *Snapshot) Could(uuid string, r *lease.Request) bool {
	i := s.lookup(uuid)
	return i >= 0 && s.couldAt(i, r)
}

func (s *Snapshot) couldAt(i int, r *lease.Request) bool {
	return r.Load().Within(s.most(i)) && s.allows(i, r)
}

func (s *Snapshot) allows(i int, r *lease.Request) bool {
	if len(r.Only) > 0 && !slices.Contains(r.Only, s.devices[i].UUID) {
		return false
	}
	w := &r.Where
	return *w == gpu.Where{} || w.Allows(s.devices[i].UUID, s.devices[i].Index) && w.Unmet(&s.models[s.model[i]]) == ""
}

func (s *Snapshot) most(i int) lease.Load {
	return lease.Load{Memory: s.use[i].Ceiling, Slots: s.use[i].MaxPipelines}
}

// Ever reports whether a request would fit if nobody held anything and every device were
// well, like the Ever of Explain but without the cost of reasons.
func (s *Snapshot) Ever(r *lease.Request) bool {
	n, ready := s.needOf(r, nil), 0
	for i := range s.devices {
		if s.could(&n, i) {
			ready++
		}
	}
	return ready >= r.Devices()
}

func (s *Snapshot) could(n *need, i int) bool {
	u := &s.use[i]
	return s.meets(n, i) && u.Ceiling >= n.memory && u.MaxPipelines >= n.slots
}

// UUIDOf returns the UUID of the device with this index or UUID, or "" if there is none.
func (s *Snapshot) UUIDOf(ref string) string {
	where := gpu.Where{GPU: ref}
	for i := range s.devices {
		if d := &s.devices[i]; ref != "" && where.Allows(d.UUID, d.Index) {
			return d.UUID
		}
	}
	return ""
}
