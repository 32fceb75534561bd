// Package runs keeps what the runners of batches report about themselves.
//
// A runner that reports nothing for a while is probably dead, so its batch counts as
// ended. Its records stay in the totals of its GPUs, and its last report in the list of
// ended batches until the daemon ends or newer ones take its place.
//
// Reports come from users and may say anything. So texts are cleaned, each user has a
// share of the places, and what a report adds to the totals is bounded: see standing.
package runs

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Silence is how long a batch is listed after its last report.
const Silence = 10 * time.Second

// The most batches that are listed, in all and of one user: nobody runs more.
const (
	most        = 1024
	mostPerUser = 64
)

// mostEnded and mostEndedPerUser limit the ended batches that are remembered, in all and
// of one user.
const (
	mostEnded        = 1024
	mostEndedPerUser = 64
)

// Errors that callers decide on.
var (
	// ErrShare means that this user has as many batches as one user may have.
	ErrShare = fmt.Errorf("%d batches of this user report at the same time, and no more are listed", mostPerUser)
	// ErrTooMany means that as many batches report as are listed.
	ErrTooMany = errors.New("too many batches report at the same time")
	// ErrID means that a batch has no printable id, or is reported under another one.
	ErrID = errors.New("the id of the batch is missing, has characters that cannot be printed, or is not the one of the path")
)

// Runs keeps the batches that report. Its zero value is not usable.
type Runs struct {
	publish func(gpu.Event)
	known   func(uuid string) bool
	holds   func(owner lease.Owner, uuid string) bool

	mu        sync.Mutex           // guards what follows
	running   map[lease.Key]*entry // ids are per user
	over      []Listed             // ended batches, the oldest end first, each id of a user once
	totals    map[string]*Total    // by UUID
	standings map[party]*standing
}

type entry struct {
	api.Batch
	expire *time.Timer
}

// Listed is a batch with the user that it belongs to.
type Listed struct {
	api.Batch
	Owner lease.Owner
}

// New returns Runs without a batch. Runs calls publish with events, from any goroutine.
// It keeps only known GPUs, and counts records only on GPUs on which the user who reports
// them holds a lease, or held one a moment ago.
func New(publish func(gpu.Event), known func(uuid string) bool, holds func(owner lease.Owner, uuid string) bool) *Runs {
	return &Runs{
		publish: publish, known: known, holds: holds,
		running: map[lease.Key]*entry{}, totals: map[string]*Total{}, standings: map[party]*standing{},
	}
}

// Report processes a report of a batch by its user.
func (r *Runs) Report(b api.Batch, by access.Actor) (api.Batch, error) {
	if b.ID == "" || gpu.Printable(b.ID, gpu.Whole) != b.ID {
		return b, ErrID
	}
	b.Reported, b.User = time.Now(), by.User
	owner := lease.OwnerOf(&by)
	r.clean(&b)
	// Ask who holds what before taking the lock: the ledger calls Ended,
	// and may hold a lock of its own then.
	held := map[string]bool{}
	for i := range b.GPUs {
		held[b.GPUs[i].GPU] = r.holds(owner, b.GPUs[i].GPU)
	}
	news, err := r.take(owner, &b, held)
	for _, e := range news {
		e.By = lease.ByOf(by)
		r.publish(e)
	}
	return b, err
}

// clean prepares a report to be kept: it makes texts printable, and keeps each GPU of
// this machine at most once.
func (r *Runs) clean(b *api.Batch) {
	for _, text := range []*string{&b.Output, &b.Command, &b.Stage, &b.Error} {
		*text = gpu.Printable(*text, gpu.Whole)
	}
	seen := map[string]bool{}
	b.GPUs = slices.DeleteFunc(slices.Clone(b.GPUs), func(g api.BatchGPU) bool {
		first := !seen[g.GPU] && r.known(g.GPU)
		seen[g.GPU] = true
		return !first
	})
	for i := range b.GPUs {
		g := &b.GPUs[i]
		g.Name = gpu.Printable(g.Name, gpu.Whole)
		if !sound(&g.Latency) {
			g.Latency = api.Latency{Bounds: []float64{}, Counts: []uint64{}}
		}
	}
}

// share returns the number of listed batches of a user. The caller holds the lock.
func (r *Runs) share(owner lease.Owner) int {
	n := 0
	for key := range r.running {
		if key.Owner == owner {
			n++
		}
	}
	return n
}

// take processes a report and returns the events to publish without the lock.
func (r *Runs) take(owner lease.Owner, b *api.Batch, held map[string]bool) (news []gpu.Event, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := lease.Key{Owner: owner, ID: b.ID}
	before := r.running[key]
	switch {
	case before != nil && ended(before.Stage) && !ended(b.Stage) && !b.Started.IsZero() && before.Started.Equal(b.Started):
		return nil, nil // an older report, which comes late
	case before == nil && r.share(owner) >= mostPerUser:
		return nil, ErrShare
	case before == nil && len(r.running) >= most:
		return nil, ErrTooMany
	case before == nil:
		begins := b.Started.IsZero() || b.Reported.Sub(b.Started) < Silence
		before = &entry{expire: time.AfterFunc(Silence, func() { r.forget(key) })}
		before.Batch = r.counted(key, b, begins)
		r.over = slices.DeleteFunc(r.over, func(b Listed) bool { return b.Owner == owner && b.ID == key.ID }) // it goes on
		r.running[key] = before
		if begins {
			news = append(news, event(b, gpu.Note, "started", "begins with its workers", ""))
		} else if !ended(b.Stage) { // this daemon is younger than the batch, or has not heard from it for long
			news = append(news, event(b, gpu.Note, "seen", "goes on; its runner reports again", ""))
		}
	default:
		before.expire.Reset(Silence)
	}
	r.count(owner, &before.Batch, b, held)
	if before.Stage != b.Stage {
		news = append(news, ending(b)...)
	}
	before.Batch = *b
	return news, nil
}

// counted returns what was counted of a batch that is not listed: what it had done when it
// fell silent, or nothing if it begins. A batch that is older and unknown had perhaps done
// everything before this daemon began. The caller holds the lock.
func (r *Runs) counted(key lease.Key, b *api.Batch, begins bool) api.Batch {
	at := slices.IndexFunc(r.over, func(l Listed) bool { return l.Owner == key.Owner && l.ID == key.ID && l.Started.Equal(b.Started) })
	switch {
	case at >= 0:
		return api.Batch{GPUs: r.over[at].GPUs}
	case begins:
		return api.Batch{}
	}
	return api.Batch{GPUs: b.GPUs}
}

// forget removes a batch that has not reported for a while.
func (r *Runs) forget(key lease.Key) {
	r.mu.Lock()
	e := r.running[key]
	if e == nil || time.Since(e.Reported) < Silence {
		r.mu.Unlock()
		return // it has just reported
	}
	delete(r.running, key)
	last := e.Batch
	if !ended(last.Stage) {
		last.Stage, last.Error, last.Rate, last.Left = "failed", "Its runner reported nothing any more. What it had done is kept.", gpu.Opt[float64]{}, gpu.Opt[float64]{}
	}
	r.remember(Listed{last, key.Owner})
	r.mu.Unlock()
	if !ended(e.Stage) {
		r.publish(event(&e.Batch, gpu.Warning, "failed", "does not report any more: its runner is gone; what it had done is kept", ""))
	}
}

// remember adds an ended batch, and forgets the oldest of its user, or of all, if there are
// too many. The caller holds the lock.
func (r *Runs) remember(b Listed) {
	r.over = append(r.over, b)
	own := 0
	for _, each := range r.over {
		if each.Owner == b.Owner {
			own++
		}
	}
	oldest := 0
	switch {
	case own > mostEndedPerUser:
		oldest = slices.IndexFunc(r.over, func(each Listed) bool { return each.Owner == b.Owner })
	case len(r.over) <= mostEnded:
		return
	}
	r.over = slices.Delete(r.over, oldest, oldest+1)
}

// Past returns the batches that have ended since the daemon began, as far as they are
// remembered, the oldest end first. A batch that ended a moment ago is still in List.
func (r *Runs) Past() []Listed {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.over)
}

func ended(stage string) bool { return slices.Contains([]string{"done", "stopped", "failed"}, stage) }

// ending returns the events for the last stage of a batch.
func ending(b *api.Batch) []gpu.Event {
	switch b.Stage {
	case "done":
		severity := gpu.Note
		if b.Failed > 0 {
			severity = gpu.Warning
		}
		return []gpu.Event{event(b, severity, "finished", fmt.Sprintf("is finished: %s, %d of them failed", words.Count(b.Done, "record"), b.Failed), "")}
	case "stopped":
		return []gpu.Event{event(b, gpu.Note, "stopped", "was stopped after "+words.Count(b.Done, "record"), "")}
	case "failed":
		return []gpu.Event{event(b, gpu.Warning, "failed", "failed after "+words.Count(b.Done, "record"), ": "+strings.TrimRight(b.Error, "."))}
	}
	return nil
}

// event returns an event about a batch. Its user sees the name of the output
// and the reason; others do not.
func event(b *api.Batch, severity gpu.Severity, what, happened, reason string) gpu.Event {
	data := map[string]any{"batch": b.ID, "what": what, "output": b.Output, "done": b.Done, "failed": b.Failed}
	if used, known := b.Energy.Get(); known {
		data["energy_joules"] = float64(used)
	}
	return gpu.Event{
		Time: b.Reported, Code: gpu.EventBatch, Severity: severity, User: b.User,
		Text:   fmt.Sprintf("The batch %s %s%s.", filepath.Base(b.Output), happened, reason),
		Public: fmt.Sprintf("A batch of %s %s.", b.User, happened),
		Data:   data,
	}
}

// List returns every listed batch, the oldest first.
func (r *Runs) List() []Listed {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]Listed, 0, len(r.running))
	for key, e := range r.running {
		list = append(list, Listed{e.Batch, key.Owner})
	}
	slices.SortFunc(list, func(a, b Listed) int {
		if c := a.Started.Compare(b.Started); c != 0 {
			return c
		}
		return cmp.Or(strings.Compare(a.ID, b.ID), cmp.Compare(a.Owner.UID, b.Owner.UID), strings.Compare(a.Owner.User, b.Owner.User))
	})
	return list
}
