package ledger

import (
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/placement"
)

// line is who is before a request in the queue.
type line struct {
	// ahead are those whom it must not delay.
	ahead []*lease.Request
	// stuck are the first ones of their services that wait for their quota. Room
	// is of no use to them, so others may have it; but nobody of the same
	// service may use the quota up that they wait for.
	stuck map[string]*lease.Request
	// held remembers, by device, what would have delayed somebody: then so would
	// everything that is as large and stands further back.
	held map[string][]heldBack
}

type heldBack struct {
	lease.Load
	why string
}

func (n *line) clear() {
	clear(n.ahead)
	n.ahead = n.ahead[:0]
	clear(n.stuck)
	for uuid, all := range n.held {
		n.held[uuid] = all[:0]
	}
}

// why says whom something would delay, if that is known already.
func (n *line) why(uuid string, l lease.Load) string {
	for _, h := range n.held[uuid] {
		if h.Memory <= l.Memory && h.Slots <= l.Slots {
			return h.why
		}
	}
	return ""
}

func (n *line) hold(uuid string, h heldBack) {
	if n.held == nil {
		n.held = map[string][]heldBack{}
	}
	n.held[uuid] = append(n.held[uuid], h)
}

// join puts a request at the end of the line. The caller holds mu.
func (m *machine) join(n *line, r *lease.Request) {
	name := r.Holder.Service
	switch {
	case m.overQuota(r, n) == nil:
		n.ahead = append(n.ahead, r)
	case n.stuck[name] == nil:
		if n.stuck == nil {
			n.stuck = map[string]*lease.Request{}
		}
		n.stuck[name] = r
	}
}

// lineBefore is who is before a request: everybody, if it is not in the queue.
// It holds until the next change. The caller holds mu.
func (m *machine) lineBefore(r *lease.Request) *line {
	n := &line{}
	for _, other := range m.book.Waiting() {
		if other == r {
			break
		}
		m.join(n, other)
	}
	return n
}

// serve grants what can be granted to those who wait, in their order. The
// caller holds mu.
func (l *Ledger) serve(now time.Time) {
	if _, waiting := l.book.Len(); waiting == 0 || !l.dirty && !l.serveNew(now) {
		return
	}
	for l.serveFirst(now) { // the order changes with every grant, because shares do
	}
	l.dirty = false
}

// serveNew looks after those whom this batch put into the queue, and reports
// whether it granted one of them. Where nothing else has changed, nobody else
// can be served.
func (l *Ledger) serveNew(now time.Time) bool {
	for _, e := range l.effects { // appended to only where the loop ends
		if e.Kind == lease.Asked && l.book.Request(e.Request.ID) == e.Request {
			if granted, err := l.place(e.Request, l.lineBefore(e.Request), now); err == nil && granted != nil {
				return true
			}
		}
	}
	return false
}

// serveFirst grants the first request in the queue that can be granted.
func (l *Ledger) serveFirst(now time.Time) bool {
	l.line.clear()
	for _, r := range l.book.Waiting() {
		if granted, err := l.place(r, &l.line, now); err == nil && granted != nil {
			return true
		}
		l.join(&l.line, r)
	}
	return false
}

// place grants a request if it fits, behind those who are before it; nil: there
// are none. It returns nil if it does not. The caller holds mu.
func (l *Ledger) place(r *lease.Request, before *line, now time.Time) (*lease.Lease, error) {
	if l.overQuota(r, before) != nil {
		return nil, nil
	}
	var fits bool
	if l.chosen, fits = placement.Choose(l.snapshot, r, l.behind(r, before), l.chosen[:0]); !fits {
		return nil, nil
	}
	granted := r.Lease(l.chosen...)
	if _, err := l.apply(lease.Grant{Lease: granted}, now); err != nil {
		return nil, err
	}
	return granted, nil
}

// gate keeps a request from delaying those before it in the queue. It is the
// Gate that placement asks.
type gate struct {
	machine *machine
	request *lease.Request
	before  *line
}

// behind returns the gate for a request behind others; nil if there are none.
// The gate holds until the next call of behind or advice. The caller holds mu.
func (m *machine) behind(r *lease.Request, before *line) placement.Gate {
	if before == nil || len(before.ahead) == 0 {
		return nil
	}
	return m.advice(r, before)
}

// advice returns the gate for a question what a request could have: it also
// knows the limits of its service. The caller holds mu.
func (m *machine) advice(r *lease.Request, before *line) placement.Gate {
	m.gate = gate{machine: m, request: r, before: before}
	return &m.gate
}

// Refuse returns whom the request would delay on a device, in words; "" if
// nobody.
func (g *gate) Refuse(uuid string, memory gpu.MiB) string {
	if g.before == nil || len(g.before.ahead) == 0 {
		return ""
	}
	load := lease.Load{Memory: memory, Slots: g.request.Slots}
	if why := g.before.why(uuid, load); why != "" {
		return why
	}
	first := g.machine.book.Delayed(uuid, load, g.before.ahead, g.machine.snapshot)
	if first == nil {
		return ""
	}
	why := "it would delay " + first.ID + ", which is ahead in the queue"
	g.before.hold(uuid, heldBack{load, why})
	return why
}

// Allow returns as much of an amount on each device as the service of the
// request may have now; zero: none.
func (g *gate) Allow(memory gpu.MiB) gpu.MiB {
	m, name := g.machine, g.request.Holder.Service
	service, known := m.settings.Services[name]
	if !known {
		return memory
	}
	less := *g.request
	less.Memory = within(service, less.Devices(), memory, m.book.ServiceUsage(name))
	if less.Memory == 0 || m.overQuota(&less, g.before) != nil {
		return 0
	}
	return less.Memory
}

// overQuota is why the quota of its service keeps a request from being granted;
// nil if it does not. The caller holds mu.
func (m *machine) overQuota(r *lease.Request, before *line) error {
	name := r.Holder.Service
	service, known := m.settings.Services[name]
	if !known {
		return nil
	}
	if before != nil && before.stuck[name] != nil {
		return &lease.AdmitError{
			Service: name, Err: lease.ErrQuota, Later: true, Asked: r.Total(), Limit: service.Quota, InUse: m.book.ServiceUsage(name),
			Text: before.stuck[name].ID + " is ahead and waits for the quota of the service",
		}
	}
	return lease.WithinQuota(service.Service, r, m.book.ServiceUsage(name))
}

// whyNot is the refusal of a request that does not want to wait. The caller
// holds mu.
func (m *machine) whyNot(r *lease.Request) error {
	before := m.lineBefore(r)
	if err := m.overQuota(r, before); err != nil {
		return err
	}
	if _, fits := placement.Choose(m.snapshot, r, nil, nil); !fits {
		return m.refusal(r, before) // those ahead included: what it advises must not delay them
	}
	_, waiting := m.book.Len()
	if m.book.Request(r.ID) == r {
		waiting-- // itself, for this moment
	}
	return &QueuedError{Waiting: waiting, LargestNow: m.largestNow(r, before)}
}

// QueuedError refuses a request that would fit, but for those who wait already,
// and that does not want to wait itself.
type QueuedError struct {
	Waiting    int
	LargestNow gpu.MiB // what would delay nobody; zero: nothing
}

func (e *QueuedError) Error() string {
	text := fmt.Sprintf("%d requests wait already, and one of them would be delayed: wait in turn", e.Waiting)
	if e.Waiting == 1 {
		text = "a request waits already, and would be delayed: wait in turn"
	}
	if e.LargestNow > 0 {
		text += ", or ask for at most " + e.LargestNow.Exact() + ", which would be granted now"
	}
	return text
}

// refusal is what stands in the way of a request now, those ahead of it
// included; nil if nothing does. The caller holds mu.
func (m *machine) refusal(r *lease.Request, before *line) *placement.NoFitError {
	return placement.Explain(m.snapshot, r, m.advice(r, before))
}
