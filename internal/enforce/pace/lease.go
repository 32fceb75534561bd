package pace

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
)

// paced is a lease that is held to a share.
type paced struct {
	wake chan struct{} // has room for one value, sent when something has changed

	mu      sync.Mutex // guards what follows, except for Key, Fence and Since, which never change
	Paced              // without Measured; of holds with equal shares, that of the owner is last
	control Controller
	seen    []func() // measurements to learn from in the next cycle, after the pauses
	pids    map[int]bool
	over    chan struct{} // closed when the present pause is over; nil between pauses
	stopped []process.ID  // in the present pause
	lasted  time.Duration // length of all pauses together
	with    uint64        // the fence of the parent in whose cycles its processes stop; 0 if they stop in its own
	sparing bool          // people know that some of its processes are left alone
}

func newPaced(h Hold) *paced {
	return &paced{Paced: Paced{Key: h.Key, Fence: h.Fence, Since: time.Now()}, wake: make(chan struct{}, 1)}
}

func (l *paced) hold(h Hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.Holds) > 0 && h.Share != l.Holds[0].Share {
		l.Cycles = 0 // the count starts again with a new share
	}
	l.Holds = slices.DeleteFunc(l.Holds, func(old Hold) bool { return old.Source == h.Source })
	l.Holds = append(l.Holds, h)
	slices.SortStableFunc(l.Holds, func(a, b Hold) int { return cmp.Or(cmp.Compare(a.Share, b.Share), rank(a)-rank(b)) })
	l.changed()
}

// rank orders the hold of an owner, who may not have every process stopped, after others
// with the same share.
func rank(h Hold) int {
	if h.Source == ByOwner {
		return 1
	}
	return 0
}

// counting returns the hold that counts. The processes are stopped in the name of the
// person who set it.
func (l *paced) counting() Hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.Holds) == 0 {
		return Hold{Share: 1}
	}
	return l.Holds[0]
}

// spares notes that processes are left alone, and reports whether that is new.
func (l *paced) spares(spared []process.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	fresh := len(spared) > 0 && !l.sparing
	l.sparing = l.sparing || fresh
	return fresh
}

// let ends the holds of some sources, and reports whether there were any, and any that a
// person set.
func (l *paced) let(sources []Source, by gpu.By) (any, byHand bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := len(l.Holds)
	l.Holds = slices.DeleteFunc(l.Holds, func(h Hold) bool {
		ends := slices.Contains(sources, h.Source)
		if ends {
			l.ended = h
			byHand = byHand || !h.Source.fromSettings()
		}
		return ends
	})
	if len(l.Holds) == before {
		return false, false
	}
	l.ended.By = by
	l.changed()
	return true, byHand
}

func (l *paced) changed() {
	select {
	case l.wake <- struct{}{}:
	default: // its cycles are going to look anyway
	}
}

// share returns the share that the lease is held to, or 1 if nobody holds it.
func (l *paced) share() float64 {
	return l.counting().Share
}

// byHand returns the holds that people set.
func (l *paced) byHand() []Hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.Holds), func(h Hold) bool { return h.Source.fromSettings() })
}

// told returns the public state of the lease.
func (l *paced) told() (Paced, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.Paced
	now.Holds, now.Measured = slices.Clone(l.Holds), l.control.Measured()
	return now, len(l.Holds) > 0
}

// next returns the next cycle, and false if nobody holds it any more.
func (l *paced) next() (Cycle, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.Holds) == 0 {
		return Cycle{}, false
	}
	for _, learn := range l.seen {
		learn()
	}
	l.seen = nil
	l.control.Hold(l.Holds[0].Share)
	return l.control.Next(), true
}

// saw keeps a measurement until the next cycle.
func (l *paced) saw(learn func(*Controller)) {
	const most = 1000
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.seen) < most {
		l.seen = append(l.seen, func() { learn(&l.control) })
	}
}

// refuses notes why the processes of the lease are not stopped, or that they are if why is
// empty. It reports whether that is new.
func (l *paced) refuses(why string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.Refused
	l.Refused = why
	return before != why
}

// stoppedFor returns the length of all pauses together.
func (l *paced) stoppedFor() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lasted
}

// stopping begins a pause, and returns a channel that is closed when the pause is over.
func (l *paced) stopping() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = make(chan struct{})
	return l.over
}

// paused records a pause of a lease, which is over: of this one, or of the one that it stops
// with.
func (l *paced) paused(fence uint64, from, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if fence != l.Fence && fence != l.with {
		return
	}
	l.control.Paused(from, until)
	l.lasted += max(until.Sub(from), 0)
	l.Cycles++
	if fence == l.Fence {
		l.endPause()
	}
}

// stopWith notes in whose cycles the processes of the lease stop.
func (l *paced) stopWith(parent uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.with = parent
}

// stopsWith returns the fence of the parent in whose cycles the processes of the lease stop,
// or 0.
func (l *paced) stopsWith() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.with
}

// freed ends a pause of unknown length, and returns the processes that it stopped.
func (l *paced) freed() []process.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.endPause()
}

// endPause tells the waiting goroutines that nothing is stopped. The caller holds mu.
func (l *paced) endPause() (stopped []process.ID) {
	stopped, l.stopped = l.stopped, nil
	if l.over != nil {
		close(l.over)
		l.over = nil
	}
	return stopped
}

// stops notes processes that are about to be stopped in the present pause.
func (l *paced) stops(ids []process.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = append(l.stopped, ids...)
}

// members notes the processes of the lease.
func (l *paced) members(ids []process.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pids = make(map[int]bool, len(ids))
	for _, id := range ids {
		l.pids[id.PID] = true
	}
}

// used returns the share of a device that the processes of the lease had, from 0 to 1.
func (l *paced) used(shares map[int]gpu.Percent) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := 0.0
	for pid, share := range shares {
		if l.pids[pid] {
			sum += float64(share) / 100
		}
	}
	return min(sum, 1)
}

// Percent formats a share for people.
func Percent(share float64) string { return fmt.Sprintf("%d %%", int(math.Round(100*share))) }

func event(l *lease.Lease, h Hold, severity gpu.Severity, text string, data map[string]any) gpu.Event {
	data["fence"], data["source"] = h.Fence, string(h.Source)
	return gpu.Event{
		Time: time.Now(), Code: gpu.EventPaced, Severity: severity, GPU: h.GPU, Lease: h.Key.ID, User: l.Holder.User, By: h.By, Text: text, Data: data,
	}
}

func pacedEvent(l *lease.Lease, h Hold, share float64) gpu.Event {
	text := fmt.Sprintf("%s is held to %s of what it would get", h.Key.ID, Percent(share))
	if h.Why != "" {
		text += ": " + h.Why
	}
	return event(l, h, gpu.Warning, text, map[string]any{"share": share, "expected": share, "reason": h.Why})
}

func refusedEvent(l *lease.Lease, h Hold, why string) gpu.Event {
	e := event(l, h, gpu.Warning, fmt.Sprintf("%s cannot be held to %s: %s", h.Key.ID, Percent(h.Share), why), map[string]any{"share": h.Share, "refused": true})
	e.Public = fmt.Sprintf("%s cannot be held to %s", h.Key.ID, Percent(h.Share))
	return e
}

func endedEvent(l *lease.Lease, last Paced) gpu.Event {
	h := Hold{Key: last.Key, Fence: last.Fence, Source: last.ended.Source, By: last.ended.By, GPU: last.ended.GPU}
	data := map[string]any{"share": 1.0, "held_seconds": math.Round(time.Since(last.Since).Seconds()), "measured": math.Round(1000*last.Measured.Share) / 1000, "by_driver": last.Measured.Known}
	return event(l, h, gpu.Note, fmt.Sprintf("%s runs freely again", last.Key.ID), data)
}
