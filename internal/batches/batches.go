// Package batches keeps what the runners of batches report about themselves. A
// runner that says nothing for a while is taken for dead and forgotten; what it
// had counted until then stays in the totals of its GPUs.
package batches

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// Silence is how long a batch is listed after its last report.
const Silence = 10 * time.Second

// most is how many batches are listed; nobody runs so many.
const most = 1024

// Errors that callers decide on.
var (
	// ErrNotYours: another user reports under this id.
	ErrNotYours = errors.New("this batch belongs to another user")
	// ErrTooMany: as many batches report as are listed.
	ErrTooMany = errors.New("too many batches report at the same time")
	// ErrID: it has no id, or not the one it is reported under.
	ErrID = errors.New("the id of the batch is missing, or not the one of the path")
)

// Keeper keeps the batches. Its zero value is not usable.
type Keeper struct {
	publish func(gpu.Event)
	known   func(uuid string) bool

	mu      sync.Mutex // guards what follows
	running map[string]*entry
	totals  map[string]*Total // by UUID
}

type entry struct {
	api.Batch
	expire *time.Timer
}

// New makes a keeper that tells publish what happens, from any goroutine. Only GPUs that are known
// are counted.
func New(publish func(gpu.Event), known func(uuid string) bool) *Keeper {
	return &Keeper{publish: publish, known: known, running: map[string]*entry{}, totals: map[string]*Total{}}
}

// Report takes in where a batch stands; its User is who reports.
func (k *Keeper) Report(b api.Batch) (api.Batch, error) {
	if b.ID == "" {
		return b, ErrID
	}
	b.Reported = time.Now()
	news, err := k.take(&b)
	for _, e := range news {
		k.publish(e)
	}
	return b, err
}

// take returns what there is to tell, which is done without the lock.
func (k *Keeper) take(b *api.Batch) (news []gpu.Event, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	id := b.ID
	before := k.running[id]
	switch {
	case before == nil && len(k.running) >= most:
		return nil, ErrTooMany
	case before != nil && before.User != b.User:
		return nil, ErrNotYours
	case before == nil:
		before = &entry{expire: time.AfterFunc(Silence, func() { k.forget(id) })}
		k.running[id] = before
		if b.Started.IsZero() || b.Reported.Sub(b.Started) < Silence {
			news = append(news, event(b, gpu.Note, "started", "begins with its workers"))
		} else if !ended(b.Stage) { // this daemon is younger than the batch, or has not heard of it for long
			news = append(news, event(b, gpu.Note, "seen", "goes on; its runner reports again"))
		}
	default:
		before.expire.Reset(Silence)
	}
	k.count(&before.Batch, b)
	if before.Stage != b.Stage {
		news = append(news, ending(b)...)
	}
	before.Batch = *b
	return news, nil
}

// forget takes a batch off the list that has not reported for a while.
func (k *Keeper) forget(id string) {
	k.mu.Lock()
	e := k.running[id]
	if e == nil || time.Since(e.Reported) < Silence {
		k.mu.Unlock()
		return // it has just reported
	}
	delete(k.running, id)
	k.mu.Unlock()
	if !ended(e.Stage) {
		k.publish(event(&e.Batch, gpu.Warning, "failed", "does not report any more: its runner is gone; what it had done is kept"))
	}
}

func ended(stage string) bool { return slices.Contains([]string{"done", "stopped", "failed"}, stage) }

// ending is what there is to tell when a stage is reached.
func ending(b *api.Batch) []gpu.Event {
	switch b.Stage {
	case "done":
		severity := gpu.Note
		if b.Failed > 0 {
			severity = gpu.Warning
		}
		return []gpu.Event{event(b, severity, "finished", "is finished: %s, %d of them failed", records(b.Done), b.Failed)}
	case "stopped":
		return []gpu.Event{event(b, gpu.Note, "stopped", "was stopped after %s", records(b.Done))}
	case "failed":
		return []gpu.Event{event(b, gpu.Warning, "failed", "failed after %s: %s", records(b.Done), strings.TrimRight(b.Error, "."))}
	}
	return nil
}

func records(n int64) string {
	if n == 1 {
		return "1 record"
	}
	return fmt.Sprintf("%d records", n)
}

func event(b *api.Batch, severity gpu.Severity, what, format string, args ...any) gpu.Event {
	return gpu.Event{
		Time: b.Reported, Code: gpu.EventBatch, Severity: severity,
		Text: fmt.Sprintf("The batch %s ", filepath.Base(b.Output)) + fmt.Sprintf(format, args...) + ".",
		Data: map[string]any{"batch": b.ID, "what": what, "output": b.Output, "done": b.Done, "failed": b.Failed},
	}
}

// List is every batch that is there, the oldest first.
func (k *Keeper) List() []api.Batch {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := make([]api.Batch, 0, len(k.running))
	for _, e := range k.running {
		list = append(list, e.Batch)
	}
	slices.SortFunc(list, func(a, b api.Batch) int {
		if c := a.Started.Compare(b.Started); c != 0 {
			return c
		}
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return list
}
