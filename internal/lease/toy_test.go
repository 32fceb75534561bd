package lease

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"pgregory.net/rapid"
)

// noon is when every test begins.
var noon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// newBook is a book that is checked when the test is over.
func newBook(t testing.TB, devices ...Capacity) *Book {
	t.Helper()
	b := New()
	for i, c := range devices {
		b.SetCapacity(dev(i), c)
	}
	t.Cleanup(func() {
		if err := b.Check(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func dev(i int) string { return fmt.Sprintf("GPU-%d", i) }

// toy is the book in its simplest form: plain maps, and every sum worked out
// anew each time.
type toy struct {
	capacity map[string]Capacity
	foreign  map[string]gpu.MiB
	leases   map[Key]toyLease
	waiting  map[Key]*Request
	fence    uint64
}

type toyLease struct {
	Lease
	measured map[string]gpu.MiB
}

func (y *toy) available(uuid string) gpu.MiB {
	c := y.capacity[uuid]
	total := c.Total
	if c.Limit > 0 {
		total = min(total, c.Limit)
	}
	left := total - c.Reserve - y.foreign[uuid]
	for _, l := range y.leases {
		for _, p := range l.Parts {
			if p.GPU != uuid {
				continue
			}
			if l.State == Parked {
				left -= l.measured[uuid]
			} else {
				left -= max(p.Memory-y.taken(&l.Lease), l.measured[uuid])
			}
		}
	}
	return left
}

// taken returns what the children of a pool have.
func (y *toy) taken(pool *Lease) (sum gpu.MiB) {
	for _, l := range y.leases {
		if pool.Pool && l.From == pool.Fence {
			sum += l.Parts[0].Memory
		}
	}
	return sum
}

func (y *toy) active(uuid string) int {
	n := 0
	for _, l := range y.leases {
		for _, p := range l.Parts {
			if p.GPU == uuid && l.State == Active {
				n += p.Slots
			}
		}
	}
	return n
}

// fits is whether these parts could be added. What is there already (foreign
// memory that is adopted, measured memory of a parked lease) needs no room.
func (y *toy) fits(parts []Part, already map[string]gpu.MiB) bool {
	for _, p := range parts {
		more := max(p.Memory-already[p.GPU], 0)
		if _, adopts := already[p.GPU]; !(more <= y.available(p.GPU) || adopts && more == 0) {
			return false
		}
		if p.Slots > 0 && y.active(p.GPU)+p.Slots > y.capacity[p.GPU].Usable {
			return false
		}
	}
	return true
}

// shares is whether a lease may be beside those that are on its devices, of which one
// that has a device alone tolerates only its children.
func (y *toy) shares(l *Lease) bool {
	for _, p := range l.Parts {
		for _, other := range y.leases {
			here := other.State == Active && slices.ContainsFunc(other.Parts, func(its Part) bool { return its.GPU == p.GPU })
			parent := l.ParentFence != 0 && other.Fence == l.ParentFence
			if here && (l.Exclusive || other.Exclusive && !parent) {
				return false
			}
		}
	}
	return true
}

// history drives a book and a toy through the same random changes, and demands
// that they agree on every answer.
type history struct {
	*rapid.T
	book    *Book
	toy     toy
	now     time.Time
	journal [][]byte
	effects []Effect
	ended   map[*Request]Kind
	whole   map[string]gpu.MiB // what was available before the last Split

	// after is asked after every effect, with the memory that was available on
	// each device before.
	after func(h *history, e Effect, before map[string]gpu.MiB)
}

const toyDevices = 3

func newHistory(t *rapid.T) *history {
	h := &history{T: t, book: New(), now: noon, ended: map[*Request]Kind{}}
	h.toy = toy{map[string]Capacity{}, map[string]gpu.MiB{}, map[Key]toyLease{}, map[Key]*Request{}, 0}
	for i := range toyDevices {
		h.setCapacity(dev(i), Capacity{Total: 10, MaxPipelines: 3, Usable: 3})
	}
	return h
}

func (h *history) draw(name string, least, most int) int {
	return rapid.IntRange(least, most).Draw(h.T, name)
}

func (h *history) drawID() string { return fmt.Sprintf("job-%d", h.draw("id", 0, 5)) }

// drawKey returns the key of one of the two users for one of the ids.
func (h *history) drawKey() Key { return Key{h.drawHolder().Owner(), h.drawID(), h.drawRun()} }

// drawRun returns a run now and then.
func (h *history) drawRun() Run {
	return []Run{{}, {}, {}, {}, {Kind: OfJob, Number: 1}, {Kind: OfService, Number: 1}}[h.draw("run", 0, 5)]
}

func (h *history) drawActor() access.Actor {
	if h.draw("actor", 0, 5) == 0 {
		return access.Daemon()
	}
	return actor(h.drawHolder())
}

func (h *history) drawHolder() Holder {
	uid := h.draw("uid", 1, 2)
	return Holder{
		User: fmt.Sprintf("user%d", uid), UID: uid, PID: 7, Start: 9, Boot: "b",
		Service: []string{"", "render", "train"}[h.draw("service", 0, 2)],
	}
}

func (h *history) drawRequest() *Request {
	r := &Request{
		ID: h.drawID(), Run: h.drawRun(), Holder: h.drawHolder(), By: h.drawActor(), GPUs: h.draw("gpus", 1, 2),
		Memory: gpu.MiB(h.draw("memory", 0, 6)), Slots: h.draw("slots", 0, 2), Priority: h.draw("priority", -1, 1),
		Binding:   []Binding{ByProcess, ByTTL, ByName}[h.draw("binding", 0, 2)],
		Requested: h.now, Deadline: h.now.Add(time.Duration(h.draw("wait", 0, 50)) * time.Second),
	}
	switch h.draw("kind", 0, 5) {
	case 0:
		r.Exclusive = true
	case 1, 2:
		r.Pool, r.GPUs, r.Memory = true, 1, gpu.MiB(h.draw("pool", 1, 8))
	}
	r.Parkable = !r.Pool && h.draw("parkable", 0, 3) == 0
	if !r.Pool && h.draw("scope", 0, 5) == 0 {
		r.Scope = []string{"pod1"}
	}
	if h.draw("limited", 0, 3) == 0 {
		r.TimeLimit = time.Duration(h.draw("limit", 1, 90)) * time.Second
	}
	switch r.Binding {
	case ByTTL:
		r.TTL = time.Duration(h.draw("ttl", 1, 50)) * time.Second
	case ByProcess:
		r.Implied = h.draw("implied", 0, 1) == 1
	}
	return r
}

func (h *history) setCapacity(uuid string, c Capacity) {
	h.book.SetCapacity(uuid, c)
	h.toy.capacity[uuid] = c
}

// run makes a number of random steps and compares after each.
func (h *history) run(steps int) {
	for range steps {
		h.step()
		if err := h.book.Check(); err != nil {
			h.Fatal(err)
		}
		for i := range toyDevices {
			if s, _ := h.book.Sum(dev(i)); s.Available() != h.toy.available(dev(i)) || s.Active != h.toy.active(dev(i)) {
				h.Fatalf("%s: the book has %s and %d slots in use, the toy %s and %d", dev(i),
					s.Available(), s.Active, h.toy.available(dev(i)), h.toy.active(dev(i)))
			}
		}
		if leases, waiting := h.book.Len(); leases != len(h.toy.leases) || waiting != len(h.toy.waiting) {
			h.Fatalf("the book has %d leases and %d waiting, the toy %d and %d", leases, waiting, len(h.toy.leases), len(h.toy.waiting))
		}
	}
}

func (h *history) step() {
	uuid := dev(h.draw("device", 0, toyDevices-1))
	switch h.draw("step", 0, 27) {
	case 0, 1:
		h.ask(h.drawRequest())
	case 24:
		shares := map[Key]float64{}
		for range h.draw("shares", 0, 3) {
			shares[h.drawKey()] = float64(h.draw("share", 0, 4)) / 4
		}
		h.book.SetShares(shares)
	case 2, 3, 4:
		h.grant(h.drawRequest(), false)
	case 5:
		if r := h.toy.waiting[h.drawKey()]; r != nil {
			h.grant(r, false)
		} else {
			h.grant(h.drawRequest(), true)
		}
	case 6:
		h.renew()
	case 7, 8:
		h.end()
	case 9:
		h.park()
	case 10:
		h.now = h.now.Add(time.Duration(h.draw("seconds", 0, 20)) * time.Second)
		if h.draw("due", 0, 3) > 0 { // else they linger
			h.due()
		}
	case 11:
		h.observe(uuid)
	case 12:
		h.setCapacity(uuid, Capacity{
			Total: gpu.MiB(h.draw("total", 5, 12)), Limit: gpu.MiB(h.draw("limit", 0, 12)), Reserve: gpu.MiB(h.draw("reserve", 0, 2)),
			MaxPipelines: 3, Usable: h.draw("usable", 0, 3),
		})
	case 13:
		h.withdraw()
	case 14:
		h.bind()
	case 15, 16:
		h.resize()
	case 17:
		h.imply()
	case 18, 19:
		h.child()
	case 20, 21:
		h.want()
	case 22:
		h.shrink()
	case 23:
		h.cancel()
	case 25:
		h.rescope()
	case 26:
		h.claim()
	case 27:
		h.compact()
	}
}

// compact makes the journal that of the leases that stand.
func (h *history) compact() {
	h.journal = nil
	for line := range strings.Lines(h.book.Dump()) {
		h.journal = append(h.journal, []byte(line))
	}
}

// apply applies a change and holds its outcome to what the toy expects.
func (h *history) apply(c Change, want error) (Effect, bool) {
	before, text := h.available(), h.book.Dump()
	if g, ok := c.(Grant); ok && g.Split {
		before = h.whole
	}
	e, err := h.book.Apply(c, h.now)
	if !errors.Is(err, want) && !(want == errFields && errors.As(err, &FieldErrors{})) {
		h.Fatalf("%T %+v: %v, and the toy says %v", c, c, err, want)
	}
	if err != nil {
		if now := h.book.Dump(); now != text {
			h.Fatalf("%T was refused and still changed\n%s\nto\n%s", c, text, now)
		}
		return e, false
	}
	h.follow(e)
	if g, ok := c.(Grant); ok {
		h.adopt(g)
	}
	if h.after != nil {
		h.after(h, e, before)
	}
	return e, true
}

// available returns the memory that is available on each device.
func (h *history) available() map[string]gpu.MiB {
	all := map[string]gpu.MiB{}
	for i := range toyDevices {
		all[dev(i)] = h.toy.available(dev(i))
	}
	return all
}

// errFields stands for any FieldErrors.
var errFields = errors.New("fields")

// follow brings the toy to where the book is.
func (h *history) follow(e Effect) {
	h.effects = append(h.effects, e)
	if e.Durable() {
		r := EntryOf(&e)
		h.journal = append(h.journal, AppendEntry(nil, &r))
	}
	if e.Request != nil && e.Kind != Asked {
		if kind, twice := h.ended[e.Request]; twice {
			h.Fatalf("request %s ended twice: %s, %s", e.Request.ID, kind, e.Kind)
		}
		h.ended[e.Request] = e.Kind
		delete(h.toy.waiting, e.Request.Key())
	}
	switch {
	case e.Kind == Asked:
		h.toy.waiting[e.Request.Key()] = e.Request
	case e.Kind == Withdrawn || e.Kind == TimedOut:
	case e.After != nil:
		old := h.toy.leases[e.After.Key()]
		if e.Kind == Claimed {
			old = h.toy.leases[e.Before.Key()]
			delete(h.toy.leases, e.Before.Key())
		}
		if old.measured == nil {
			old.measured = map[string]gpu.MiB{}
		}
		h.toy.leases[e.After.Key()] = toyLease{*e.After, old.measured}
		h.toy.fence = max(h.toy.fence, e.After.Fence)
	case e.Before != nil:
		for uuid, m := range h.toy.leases[e.Before.Key()].measured { // its processes may go on
			h.toy.foreign[uuid] += m
		}
		delete(h.toy.leases, e.Before.Key())
	}
}

func (h *history) taken(k Key) bool {
	_, leased := h.toy.leases[k]
	return leased || h.toy.waiting[k] != nil
}

func (h *history) ask(r *Request) {
	var want error
	switch {
	case r.Slots == 0 && (r.Memory == 0 || r.Exclusive):
		want = errFields
	case h.taken(r.Key()):
		want = ErrDuplicate
	}
	h.apply(Ask{r}, want)
}

// want asks for what a lease does not have now: that it returns, or more memory.
func (h *history) want() {
	k := h.drawKey()
	l, stands := h.toy.leases[k]
	if !stands {
		return
	}
	r, size := l.Returning(), gpu.MiB(h.draw("size", 1, 8))
	if h.draw("grow", 0, 1) == 1 {
		r = l.Growing(size)
	}
	r.By, r.Requested, r.Deadline = h.drawActor(), h.now.Add(-time.Second), h.now.Add(time.Duration(h.draw("wait", 0, 50))*time.Second)
	var want error
	switch {
	case r.Memory <= 0 && r.Slots == 0:
		want = errFields
	case h.toy.waiting[k] != nil:
		want = ErrAsked
	case (l.State == Parked) != (r.Size == 0):
		want = ErrState
	}
	if (r.Priority == First) != (r.Size > 0 && r.Size <= l.Asked) {
		h.Fatalf("a request for %s of a lease that had %s has priority %d", r.Size, l.Asked, r.Priority)
	}
	h.apply(Ask{&r}, want)
}

// shrink takes from a lease what its processes do not use.
func (h *history) shrink() {
	c := Resize{Key: h.drawKey(), By: access.Daemon(), Memory: gpu.MiB(h.draw("memory", 1, 6)), Shrinks: true}
	l, want := h.finding(c.Key, 0, c.By)
	switch {
	case want != nil:
	case l.State != Active || l.Exclusive || l.From != 0 || l.Pool || len(l.Scope) > 0:
		want = ErrState
	default:
		for _, p := range slices.Backward(l.Parts) { // the first that refuses decides
			switch {
			case h.toy.waiting[c.Key] != nil:
				want = ErrAsked
			case p.Memory != l.Parts[0].Memory || c.Memory >= p.Memory:
				want = ErrState
			case c.Memory < l.measured[p.GPU]:
				want = ErrInUse
			}
		}
	}
	if e, done := h.apply(c, want); done && e.After.Asked != max(l.Asked, l.Parts[0].Memory) {
		h.Fatalf("a lease of %s with %s asked for has %s asked for after it was shrunk", l.Parts[0].Memory, l.Asked, e.After.Asked)
	}
}

func (h *history) grant(r *Request, adopt bool) {
	devices := rapid.Permutation([]string{dev(0), dev(1), dev(2)}).Draw(h.T, "devices")[:r.GPUs]
	g := Grant{Lease: r.Lease(devices...)}
	if last := len(devices) - 1; last > 0 && h.draw("uneven", 0, 2) == 0 { // as with exact parts
		g.Lease.Parts[last].Memory = gpu.MiB(h.draw("part", 0, 6))
	}
	already := map[string]gpu.MiB{}
	if adopt {
		for _, uuid := range devices {
			m := h.toy.foreign[uuid]
			g.Adopted = append(g.Adopted, m)
			already[uuid] = m
		}
	}
	_, leased := h.toy.leases[r.Key()]
	var want error
	switch {
	case leased:
		want = ErrDuplicate
	case slices.ContainsFunc(g.Lease.Parts, func(p Part) bool { return p.Memory == 0 && p.Slots == 0 }):
		want = errFields
	case !h.toy.fits(g.Lease.Parts, already) || !h.toy.shares(g.Lease):
		want = ErrOverSold
	}
	if _, granted := h.apply(g, want); granted && r.Exclusive {
		h.alone(g.Lease)
	}
}

// alone demands that nobody but its children is beside a lease that has just got its
// devices alone, and that Fill would have given it all that was there.
func (h *history) alone(l *Lease) {
	for _, p := range l.Parts {
		if held := h.book.Holdings(p.GPU); len(slices.DeleteFunc(held, func(o Holding) bool { return o.Lease.State == Parked })) != 1 {
			h.Fatalf("%s has %s alone, beside %+v", l.ID, p.GPU, held)
		}
		more := Lease{Parts: []Part{{GPU: p.GPU, Memory: MaxMemory}}, Terms: Terms{Exclusive: true}}
		if h.book.Fill(&more); more.Parts[0].Memory != max(h.toy.available(p.GPU), 0) {
			h.Fatalf("%s could still have %s on %s, not %s", l.ID, more.Parts[0].Memory, p.GPU, h.toy.available(p.GPU))
		}
	}
}

// child grants a child of a lease, with memory of the lease where that has it.
func (h *history) child() {
	r := h.drawRequest()
	r.Parent, r.Slots, r.Exclusive, r.Pool = h.drawID(), 0, false, false
	parent, stands := h.toy.leases[Key{r.Holder.Owner(), r.Parent, h.drawRun()}]
	if r.ParentFence = parent.Fence; !stands {
		r.ParentFence = h.toy.fence + 1
	}
	devices := []string{dev(h.draw("device", 0, toyDevices-1))}
	if h.draw("where", 0, 3) > 0 { // else perhaps not where its parent is
		devices = devices[:0]
		for _, p := range parent.Parts {
			devices = append(devices, p.GPU)
		}
	}
	g := Grant{Lease: r.Lease(devices...)}
	if g.Lease.From = parent.Fence; !parent.Pool || h.draw("from", 0, 9) == 0 { // else it names another pool, or none
		g.Lease.From = uint64(h.draw("from whom", 0, 1)) * 1000
	}
	if g.Lease.From == 0 {
		g.Split = h.split(r, parent)
	}
	drawn := parent.Pool && g.Lease.From == parent.Fence
	_, leased := h.toy.leases[r.Key()]
	ends, limited := parent.Ends()
	limited = limited && (g.Split || drawn) && r.Memory > 0 // it has its memory for as long as its parent
	var want error
	switch {
	case leased:
		want = ErrDuplicate
	case len(devices) == 0, g.Lease.From != 0 && len(devices) != 1:
		want = errFields
	case !stands || parent.State != Active || parent.Cancelled != nil:
		want = ErrParent
	case slices.ContainsFunc(devices, func(uuid string) bool {
		return !slices.ContainsFunc(parent.Parts, func(p Part) bool { return p.GPU == uuid })
	}):
		want = ErrParent
	case parent.Pool != drawn, !drawn && g.Lease.From != 0:
		want = ErrParent
	case drawn && r.Memory > max(parent.Parts[0].Memory-h.toy.taken(&parent.Lease)-parent.measured[parent.Parts[0].GPU], 0):
		want = ErrPoolFull
	case !g.Split && !drawn && !(h.toy.fits(g.Lease.Parts, nil) && h.toy.shares(g.Lease)):
		want = ErrOverSold
	case limited && ends.Sub(h.now) < MinTime:
		want = ErrParent
	}
	e, granted := h.apply(g, want)
	if granted && limited {
		if own, has := e.After.Ends(); !has || own.After(ends) {
			h.Fatalf("the child ends at %v, and its parent at %v", own, ends)
		}
	}
	if g.Split && !granted {
		h.undoSplit()
	}
	if granted && g.Split && e.After.Parts[0].Memory != r.Memory {
		h.Fatalf("the child has %+v", e.After.Parts)
	}
}

// split takes the memory of a request out of its parent, and reports whether it
// could.
func (h *history) split(r *Request, parent toyLease) bool {
	if h.draw("split", 0, 2) == 0 || h.taken(r.Key()) || parent.State != Active {
		return false
	}
	want := error(nil)
	if parent.Pool || (parent.From != 0 || len(parent.Scope) > 0) && r.Memory > 0 {
		want = ErrState
	}
	for _, p := range parent.Parts {
		keeps := p.Slots > 0 || parent.Parent != "" || r.Memory < p.Memory
		if r.Memory > 0 && (!keeps || p.Memory-parent.measured[p.GPU] < r.Memory) {
			want = ErrState
		}
	}
	if h.book.CanSplit(parent.Key(), r.Memory) != (want == nil) {
		h.Fatalf("the book says that %s splits by %s, and the toy %v", parent.ID, r.Memory, want)
	}
	if ends, limited := parent.Ends(); want == nil && limited && ends.Sub(h.now) < MinTime {
		want = ErrParent
	}
	h.whole = h.available()
	_, split := h.apply(Split{Key: parent.Key(), Memory: r.Memory, By: actor(parent.Holder)}, want)
	return split
}

// undoSplit takes the last effect back, as a ledger does that could not grant
// the child.
func (h *history) undoSplit() {
	last := h.effects[len(h.effects)-1]
	h.effects = h.effects[:len(h.effects)-1]
	h.journal = h.journal[:len(h.journal)-1]
	h.book.Revert(last)
	h.toy.leases[last.Before.Key()] = toyLease{*last.Before, h.toy.leases[last.Before.Key()].measured}
	if last.Request != nil {
		h.toy.waiting[last.Request.Key()] = last.Request
		delete(h.ended, last.Request)
	}
}

// adopt moves memory from foreign to the lease that adopted it.
func (h *history) adopt(g Grant) {
	for i, m := range g.Adopted {
		uuid := g.Lease.Parts[i].GPU
		h.toy.foreign[uuid] -= m
		h.toy.leases[g.Lease.Key()].measured[uuid] = m
	}
}

// whose is the error for changing a lease or request of somebody.
func whose(a access.Actor, h Holder) error {
	if a.Role < access.Admin && a.UID != h.UID {
		return ErrNotYours
	}
	return nil
}

// finding is the error for changing a lease by its id and a fence.
func (h *history) finding(k Key, fence uint64, by access.Actor) (toyLease, error) {
	l, ok := h.toy.leases[k]
	if named, is := h.named(k, fence); is {
		l, ok = named, true
	}
	switch {
	case !ok && fence > 0 && fence <= h.toy.fence:
		return l, ErrStaleFence
	case !ok && h.toy.waiting[k] != nil && h.toy.waiting[k].Into == 0:
		return l, ErrWaiting
	case !ok:
		return l, ErrUnknown
	case whose(by, l.Holder) != nil:
		return l, ErrNotYours
	case fence > h.toy.fence:
		return l, ErrNoFence
	case fence > 0 && fence != l.Fence:
		return l, ErrStaleFence
	}
	return l, nil
}

func (h *history) drawFence(k Key) uint64 {
	switch h.draw("fence", 0, 3) {
	case 0:
		return uint64(h.draw("old fence", 1, int(h.toy.fence)+1))
	case 1:
		return 0
	}
	return h.toy.leases[k].Fence
}

func (h *history) renew() {
	c := Renew{Key: h.drawKey(), By: h.drawActor(), TTL: time.Duration(h.draw("ttl", 0, 50)) * time.Second}
	c.Fence = h.drawFence(c.Key)
	l, want := h.finding(c.Key, c.Fence, c.By)
	ends, limited := l.Ends()
	switch {
	case want != nil:
	case l.Binding != ByTTL:
		want = ErrBinding
	case !h.now.Before(l.Expires) && l.State != Parked, limited && !h.now.Before(ends):
		want = ErrExpired
	}
	h.apply(c, want)
}

func (h *history) bind() {
	c := Bind{Key: h.drawKey(), By: h.drawActor(), PID: h.draw("pid", 0, 9), Start: uint64(h.draw("start", 0, 9)), Boot: "b"}
	c.Fence = h.drawFence(c.Key)
	l, want := h.finding(c.Key, c.Fence, c.By)
	switch {
	case want != nil:
	case l.Binding != ByProcess && (l.Binding != ByName || c.By.Door != access.Itself):
		want = ErrNotBound
	case c.PID == 0:
		want = errFields
	}
	e, done := h.apply(c, want)
	if done && (e.After.Fence != l.Fence || e.After.Holder.PID != c.PID || e.After.Holder.Start != c.Start || !e.After.Holder.Same(l.Holder)) {
		h.Fatalf("%+v made %+v of %+v", c, e.After, l.Lease)
	}
}

func (h *history) resize() {
	c := Resize{Key: h.drawKey(), By: h.drawActor(), Memory: gpu.MiB(h.draw("memory", 0, 8))}
	c.Fence = h.drawFence(c.Key)
	l, want := h.finding(c.Key, c.Fence, c.By)
	switch {
	case want != nil:
	case l.State != Active || l.Exclusive || l.From != 0 || len(l.Scope) > 0:
		want = ErrState
	case c.Memory == 0 && l.Pool:
		want = errFields
	case l.Pool && c.Memory < h.toy.taken(&l.Lease):
		want = ErrPoolInUse
	case c.Memory == 0 && l.Parent == "" && slices.ContainsFunc(l.Parts, func(p Part) bool { return p.Slots == 0 }):
		want = errFields
	default:
		for _, p := range l.Parts {
			taken := h.toy.taken(&l.Lease)
			more := max(c.Memory-taken-max(p.Memory-taken, l.measured[p.GPU]), 0)
			if more > 0 && more > h.toy.available(p.GPU) {
				want = ErrOverSold
			}
		}
	}
	h.apply(c, want)
}

// imply settles, detaches or keeps a lease of which nobody said what ends it.
func (h *history) imply() {
	k := h.drawKey()
	l, want := h.finding(k, 0, access.Daemon())
	if errors.Is(want, ErrWaiting) {
		want = ErrUnknown
	}
	state := func(b Binding) error {
		if want == nil && (!l.Implied || l.Binding != b) {
			return ErrState
		}
		return want
	}
	switch h.draw("how", 0, 2) {
	case 0:
		h.apply(Settle{Key: k}, state(ByProcess))
	case 1:
		h.apply(Detach{Key: k}, state(ByProcess))
	case 2:
		h.apply(Keep{Key: k}, state(ByTTL))
	}
}

func (h *history) end() {
	k, by := h.drawKey(), h.drawActor()
	fence := h.drawFence(k)
	switch h.draw("how", 0, 3) {
	case 0:
		_, want := h.finding(k, fence, access.Daemon())
		h.apply(Revoke{Key: k, Fence: fence, By: access.Daemon(), Why: "it used too much"}, want)
	case 1:
		l, want := h.finding(k, 0, access.Daemon())
		if want == nil && l.Binding != ByTTL {
			want = ErrBinding
		} else if want == nil && (h.now.Before(l.Expires) || l.State == Parked) {
			want = ErrNotDue
		}
		h.apply(Expire{k}, want)
	default:
		l, want := h.finding(k, fence, by)
		if want == nil && l.State == Parked && by.Door != access.Itself {
			want = ErrParked
		}
		h.apply(Release{Key: k, Fence: fence, By: by}, want)
	}
}

func (h *history) park() {
	k, by := h.drawKey(), h.drawActor()
	l, want := h.finding(k, 0, by)
	if want == nil && l.State == Parked {
		if !h.toy.fits(l.Parts, resuming(l)) || !h.toy.shares(&l.Lease) {
			want = ErrOverSold
		}
		e, done := h.apply(Resume{Key: k, By: by}, want)
		away := h.now.Sub(l.ParkedAt)
		if done && (e.After.Paused != l.Paused+away || e.After.Returned != h.now || l.Binding == ByTTL && e.After.Expires.Before(l.Expires.Add(away)) && !e.After.Expires.Equal(h.now.Add(l.TTL))) {
			h.Fatalf("after %s away, %+v became %+v", away, l.Lease, e.After)
		}
		return
	}
	if want == nil && (len(l.Parts) > 1 || l.Parent != "" || l.Pool || len(l.Scope) > 0 || h.hasChildren(&l.Lease)) {
		want = ErrUnparkable
	}
	h.apply(Park{Key: k, By: by}, want)
}

// cancel cancels a lease. Who cancels it once more reaches no less.
func (h *history) cancel() {
	k, by := h.drawKey(), h.drawActor()
	fence := h.drawFence(k)
	l, want := h.finding(k, fence, by)
	if want == nil && len(l.Scope) > 0 {
		want = ErrScoped
	}
	e, done := h.apply(Cancel{Key: k, Fence: fence, By: by, Why: "enough"}, want)
	if !done {
		return
	}
	if c := e.After.Cancelled; c.All != (by.Door == access.Itself || l.Cancelled != nil && l.Cancelled.All) || c.By != by {
		h.Fatalf("%+v was cancelled by %+v as %+v", l.Cancelled, by, c)
	}
}

// rescope gives a lease control groups, or takes them.
func (h *history) rescope() {
	c := Rescope{Key: h.drawKey(), By: access.Daemon(), Remove: []string{"pod1", "pod2"}[:h.draw("remove", 0, 2)]}
	c.Add, c.Fence = []string{"pod2", "pod3"}[:h.draw("add", 0, 2)], h.drawFence(c.Key)
	l, want := h.finding(c.Key, c.Fence, c.By)
	switch {
	case want != nil:
	case len(l.Scope) == 0 && len(c.Add) > 0 && (l.State == Parked || l.Asked > 0 || h.toy.waiting[l.Key()] != nil):
		want = ErrState
	case l.Pool && len(c.Add) > 0:
		want = errFields
	}
	h.apply(c, want)
}

// claim says that a lease is for a run.
func (h *history) claim() {
	c := Claim{Key: h.drawKey()}
	c.Run = Run{Kind: OfJob, Number: 1}
	c.Fence = h.drawFence(Key{Owner: c.Owner, ID: c.ID})
	l, found := h.named(c.Key, c.Fence)
	want := ErrUnknown
	if found {
		want = nil
		if h.taken(c.Key) || l.Run != (Run{}) {
			want = ErrDuplicate
		}
	}
	h.apply(c, want)
}

// named returns the lease that an owner, an id and a fence name.
func (h *history) named(k Key, fence uint64) (toyLease, bool) {
	for other, l := range h.toy.leases {
		if other.Owner == k.Owner && other.ID == k.ID && l.Fence == fence {
			return l, true
		}
	}
	return toyLease{}, false
}

func (h *history) hasChildren(parent *Lease) bool {
	for _, l := range h.toy.leases {
		if l.ParentFence == parent.Fence {
			return true
		}
	}
	for _, r := range h.toy.waiting {
		if r.ParentFence == parent.Fence {
			return true
		}
	}
	return false
}

// resuming is what a parked lease still has on its devices.
func resuming(l toyLease) map[string]gpu.MiB {
	already := map[string]gpu.MiB{}
	for _, p := range l.Parts {
		already[p.GPU] = l.measured[p.GPU]
	}
	return already
}

func (h *history) withdraw() {
	k, by := h.drawKey(), h.drawActor()
	r := h.toy.waiting[k]
	want := ErrUnknown
	if r != nil {
		want = whose(by, r.Holder)
	}
	if h.draw("by time", 0, 2) == 0 {
		if want = ErrUnknown; r != nil {
			want = nil
			if h.now.Before(r.Deadline) {
				want = ErrNotDue
			}
		}
		h.apply(TimeOut{k}, want)
		return
	}
	h.apply(Withdraw{Key: k, By: by}, want)
}

func (h *history) observe(uuid string) {
	m := gpu.MiB(h.draw("measured", 0, 8))
	if k := h.drawKey(); h.draw("foreign", 0, 1) == 0 {
		l, has := h.toy.leases[k]
		has = has && slices.ContainsFunc(l.Parts, func(p Part) bool { return p.GPU == uuid })
		if h.book.Observe(k, uuid, m) != has {
			h.Fatalf("observed %+v on %s: %v", k, uuid, !has)
		}
		if has {
			l.measured[uuid] = m
		}
		return
	}
	h.book.ObserveForeign(uuid, m)
	h.toy.foreign[uuid] = m
}

// due applies everything that has come due, and demands that it is everything.
func (h *history) due() {
	for range 3 { // a lease may be warned of its limit, settle and expire at once
		for _, c := range h.book.Due(h.now) {
			if late, is := c.(TimeOut); is && h.toy.waiting[late.Key] == nil {
				continue // its lease has just expired
			}
			h.apply(c, nil)
		}
	}
	next, any := h.book.Next()
	for k, r := range h.toy.waiting {
		if !h.now.Before(r.Deadline) || next.After(r.Deadline) {
			h.Fatalf("request %s should have timed out", k.ID)
		}
	}
	for k, l := range h.toy.leases {
		if l.Cancelled != nil && next.After(h.now.Add(overrunAgain)) {
			h.Fatalf("lease %s was cancelled and is due at %s", k.ID, next)
		}
		if l.State == Parked || l.Cancelled != nil {
			continue // its time stands still, or does not matter any more
		}
		if l.Binding == ByTTL && (!h.now.Before(l.Expires) || next.After(l.Expires)) {
			h.Fatalf("lease %s should have expired", k.ID)
		}
		if settles := l.Granted.Add(Grace); l.Binding == ByProcess && l.Implied && (!h.now.Before(settles) || next.After(settles)) {
			h.Fatalf("lease %s should have settled", k.ID)
		}
	}
	if any && !h.now.Before(next) {
		h.Fatalf("%s is still due", next)
	}
}
