package plugin

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// teller writes the results into the status of claims, and events on their pods. Both are
// best effort: no Prepare waits for them. If the API server refuses, teller tries again
// until it takes the status, or the claim is gone.
type teller struct {
	d    *Driver
	news chan struct{}

	mu      sync.Mutex
	reports map[string]*report // by claim
}

// report is the intended status of a claim.
type report struct {
	st      *state
	lease   api.Lease
	receipt string // what enforces the lease; empty to keep the text of the status
	refused string // why there is no lease; empty if there is one
	code    string // code of that refusal
	over    string // how it uses more than it holds; empty if it does not
	parked  string // why its memory is not on the device; empty if it is

	written bool // whether the status says so
	tries   int
	next    time.Time // earliest time of the next try
}

func newTeller(d *Driver) *teller {
	return &teller{d: d, news: make(chan struct{}, 1), reports: map[string]*report{}}
}

// change changes the report of a claim and schedules its write.
func (t *teller) change(st *state, f func(r *report) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.reports[st.UID]
	if r == nil {
		r = new(report)
		t.reports[st.UID] = r
	}
	r.st = st
	if f(r) || !r.written && r.tries == 0 {
		r.written, r.tries, r.next = false, 0, time.Time{}
		wake(t.news)
	}
}

// prepared reports that a claim has its lease.
func (t *teller) prepared(st *state, held api.Lease) {
	if st.Request == nil {
		return
	}
	t.change(st, func(r *report) bool {
		if r.lease.Fence != 0 && r.lease.Fence != held.Fence {
			r.over = "" // that was another lease
		}
		r.lease, r.refused, r.code = held, "", ""
		if held.Launch != nil {
			r.receipt = held.Launch.Receipt
		}
		return true
	})
}

// looked reports what reconcile saw of a lease: whether it is within its limit, and
// everything if this driver has not reported it yet.
func (t *teller) looked(st *state, held api.Lease) {
	t.change(st, func(r *report) bool {
		first := r.lease.ID == ""
		before := *r
		r.lease, r.refused, r.code = held, "", ""
		if over := overLimit(held); over == "" || r.over == "" {
			r.over = over // an event describes it better
		}
		if away := parkedNow(held); away == "" || r.parked == "" {
			r.parked = away
		}
		return first || r.over != before.over || r.parked != before.parked || before.refused != ""
	})
}

// lost reports that a claim has lost its lease and cannot have it back.
func (t *teller) lost(st *state, err error) {
	t.change(st, func(r *report) bool {
		if r.refused != "" && r.code == codeOf(err) {
			return false // only the numbers may differ
		}
		r.refused, r.code = err.Error(), codeOf(err)
		t.warn(st, "LeaseLost", "The lease of claim "+st.Name+" is gone, and berth does not grant it again: "+err.Error())
		return true
	})
}

// happened reports what happened to a lease to the pods of its claim.
func (t *teller) happened(e gpu.Event) {
	st := t.stateOf(e.Lease)
	if st == nil || st.Fence != 0 && !e.ConcernsGrant(st.UID, st.Fence) {
		return
	}
	switch e.Code {
	case gpu.EventOverLimit:
		t.over(st, "LeaseOverLimit", e.Text)
	case gpu.EventStopped:
		t.over(st, "LeaseStopped", e.Text)
	case gpu.EventStop:
		t.warn(st, "LeaseStop", e.Text)
	case gpu.EventParked:
		t.park(st, e.Text)
		t.warn(st, "LeaseParked", e.Text)
	case gpu.EventResumed:
		t.park(st, "")
	case gpu.EventRevoked:
		t.warn(st, "LeaseRevoked", e.Text)
		t.change(st, func(r *report) bool {
			r.refused, r.code = e.Text, "revoked"
			return true
		})
	}
}

// stateOf returns the state of the claim of a lease, even while it is being prepared, or
// nil if the lease is for no claim.
func (t *teller) stateOf(lease string) *state {
	t.d.mu.Lock()
	st := t.d.known[lease]
	t.d.mu.Unlock()
	if st == nil && goodUID(lease) {
		st, _ = t.d.states.get(lease)
	}
	return st
}

func (t *teller) over(st *state, reason, text string) {
	t.warn(st, reason, text)
	t.change(st, func(r *report) bool {
		changed := r.over == ""
		r.over = text
		return changed
	})
}

// park reports that the memory of a claim's processes has left the device, or, without a
// text, that it is back.
func (t *teller) park(st *state, text string) {
	t.change(st, func(r *report) bool {
		changed := r.parked != text
		r.parked = text
		return changed
	})
}

// parkedNow says that the memory of a lease is not on its device, or "" if it is.
func parkedNow(l api.Lease) string {
	if l.State != "parked" {
		return ""
	}
	return "The memory of its processes is in the memory of the machine; they wait until there is room on the device again."
}

func (t *teller) warn(st *state, reason, text string) {
	for _, p := range st.Pods {
		t.d.cluster.warn(st.Namespace, p, reason, text)
	}
}

// overLimit says how a lease uses more than it holds, or "" if it does not.
func overLimit(l api.Lease) string {
	for _, p := range l.Parts {
		if used, ok := p.Measured.Get(); ok && used > p.Memory {
			return fmt.Sprintf("The processes of the lease use %s of %s on %s.", used, p.Memory, p.GPU)
		}
	}
	return ""
}

func (t *teller) forget(uid string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.reports, uid)
}

// longestPause limits the pauses between two tries to write a status, which double from two
// seconds on.
const longestPause = 5 * time.Minute

// run writes reports until ctx ends.
func (t *teller) run(ctx context.Context) {
	for ctx.Err() == nil {
		pause := t.writeDue(ctx)
		select {
		case <-ctx.Done():
		case <-t.news:
		case <-time.After(pause):
		}
	}
}

// writeDue writes the reports that are due, and returns the time until the next one.
func (t *teller) writeDue(ctx context.Context) time.Duration {
	pause := time.Hour
	t.mu.Lock()
	due := map[string]report{}
	for uid, r := range t.reports {
		if r.written || r.lease.ID == "" && r.refused == "" { // nothing is known of it yet
			continue
		}
		if wait := time.Until(r.next); wait > 0 {
			pause = min(pause, wait)
			continue
		}
		due[uid] = *r
		r.written = true // unless it changes meanwhile, or the write fails
	}
	t.mu.Unlock()
	for uid, r := range due {
		err := t.write(ctx, r)
		if err == nil {
			continue
		}
		t.d.o.Metrics.ClusterFailed("claim_status", err)
		t.d.o.Log.Warn("claim status not written", "namespace", r.st.Namespace, "claim", r.st.Name, "try", r.tries+1, "err", err)
		t.mu.Lock()
		if now := t.reports[uid]; now != nil {
			now.written, now.tries = false, min(now.tries+1, 16)
			wait := min(time.Second<<now.tries, longestPause)
			now.next, pause = time.Now().Add(wait), min(pause, wait)
		}
		t.mu.Unlock()
	}
	return pause
}
