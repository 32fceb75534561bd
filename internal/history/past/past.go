// Package past keeps what berth measured, in Prometheus' storage: every sample for days,
// and half-minutes for months.
//
// One query reads both.
//
// The past is a convenience. It never makes a caller wait: a separate goroutine writes
// the samples, and counts and drops those that a slow or full disk does not take. Damaged
// files are put aside, never fatal.
package past

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/history/series"
)

// queueSize is the most lists of samples that wait for the disk: half a minute of a
// daemon that samples every second.
const queueSize = 64

// ErrBusy means that samples were dropped, because the disk is too slow.
var ErrBusy = errors.New("the disk does not keep up, and the past drops samples")

// Settings say how much is kept. They can change while the store is open.
type Settings struct {
	Off    bool          // nothing is stored, and nothing can be read
	Recent time.Duration // every sample is kept for this long
	Long   time.Duration // half-minutes are kept for this long
	Size   gpu.MiB       // most space on disk
	Every  time.Duration // time between two samples of a device; 0 means a second
}

// Options are the parts that a store works with.
type Options struct {
	Settings
	Log   *slog.Logger
	Event func(gpu.Event) // may be nil
	// Free returns the free space of the file system of a folder. If nil, the kernel is
	// asked.
	Free func(folder string) (int64, error)
}

// Past is the store. A nil *Past keeps nothing, and has nothing to report.
type Past struct {
	dir     string
	o       Options // whose Settings are the first ones
	in      chan batch
	changed chan struct{} // has room for one
	limits  atomic.Pointer[Settings]
	counted counts

	// gate is locked while the stores are not open, and read-locked by each query. A query
	// never waits for it: either it gets in, or there is nothing to read now.
	gate sync.RWMutex

	write        sync.Mutex // guards what follows: one writer at a time
	recent, long *store     // nil unless open; they change only while the gate is locked
	catalog      catalog
	window       int64     // end of the half-minute that is being collected; 0 if there is none
	looked       time.Time // when findDamage last put nothing aside; zero if it did the last time
	pause        pause
	closed       bool
	keptOut      bool // the gate is locked
}

// batch is a list of samples of one moment.
type batch struct {
	at   time.Time
	list []series.Sample
}

// New returns a store in a folder. It does not touch the disk: Run opens the store.
func New(dir string, o Options) *Past {
	p := &Past{dir: dir, o: o, in: make(chan batch, queueSize), changed: make(chan struct{}, 1)}
	if p.o.Log == nil {
		p.o.Log = slog.New(slog.DiscardHandler)
	}
	if p.o.Event == nil {
		p.o.Event = func(gpu.Event) {}
	}
	if p.o.Free == nil {
		p.o.Free = freeSpace
	}
	p.keepOut()
	p.Configure(o.Settings)
	return p
}

// Open opens the store in a folder, and creates it if there is none. It puts damaged
// files aside. It returns an error if the folder cannot be used at all.
func Open(dir string, o Options) (*Past, error) {
	p := New(dir, o)
	p.write.Lock()
	defer p.write.Unlock()
	if err := p.open(); err != nil {
		return nil, err
	}
	return p, nil
}

// open opens both stores. The caller holds write.
func (p *Past) open() error {
	if p.recent != nil {
		return nil
	}
	if err := makeFolder(p.dir); err != nil {
		return err
	}
	recent, err := p.openStore(recentKind)
	if err != nil {
		return err
	}
	long, err := p.openStore(longKind)
	if err != nil {
		return errors.Join(err, recent.close())
	}
	p.recent, p.long = recent, long
	defer p.letIn()
	if p.window != 0 { // after a pause: the samples collected before are still there
		p.catalog.forget()
		return nil
	}
	p.catalog = catalog{}
	if err := p.catchUp(); err != nil {
		p.o.Log.Warn("a half-minute of the past is missing", "error", err)
	}
	return nil
}

// makeFolder creates a folder if it does not exist. Its parent must exist: a state folder
// that somebody removed is not created anew.
func makeFolder(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the folder of the past: %w", err)
	}
	return nil
}

// shut closes both stores, after every query has ended. The caller holds write.
func (p *Past) shut() error {
	if p.recent == nil {
		return nil
	}
	p.keepOut()
	err := errors.Join(p.recent.close(), p.long.close())
	p.recent, p.long = nil, nil
	return err
}

// keepOut turns queries away, and waits until every query has ended, which they do within
// their limits. Until letIn, it does nothing more. The caller holds write.
func (p *Past) keepOut() {
	if !p.keptOut {
		p.gate.Lock()
		p.keptOut = true
	}
}

// letIn lets queries read the stores. The caller holds write.
func (p *Past) letIn() {
	p.keptOut = false
	p.gate.Unlock()
}

// Configure changes how much is kept, and whether anything is kept. Surplus files go
// within minutes.
func (p *Past) Configure(s Settings) {
	if p == nil {
		return
	}
	p.limits.Store(&s)
	if p.counted.began.Load() != nil { // a store that is turned on needs a moment
		p.counted.began.Store(time.Now())
	}
	p.nudge()
}

// On reports whether the past is kept. A nil *Past keeps nothing.
func (p *Past) On() bool { return p != nil && !p.limits.Load().Off }

// Append queues samples to be stored, and does not wait for the disk. The list belongs to
// the store from then on. If too many lists wait, Append drops the samples and returns
// ErrBusy.
func (p *Past) Append(at time.Time, list []series.Sample) error {
	if !p.On() || len(list) == 0 {
		return nil
	}
	select {
	case p.in <- batch{at, list}:
		return nil
	default:
		p.counted.dropped.Add(uint64(len(list)))
		return ErrBusy
	}
}

// Run opens the store if it is not open, and stores queued samples until ctx ends. If the
// disk fails, it tries again and again.
func (p *Past) Run(ctx context.Context) {
	if p == nil {
		return
	}
	p.counted.began.Store(time.Now())
	tidy := time.NewTicker(tidyEvery)
	defer tidy.Stop()
	p.Tidy(time.Now())
	for {
		select {
		case b := <-p.in:
			_ = p.Write(b.at, b.list) // it publishes its errors
		case <-p.changed:
			p.Tidy(time.Now())
		case now := <-tidy.C:
			p.Tidy(now)
		case <-ctx.Done():
			for {
				select {
				case b := <-p.in:
					_ = p.Write(b.at, b.list)
				default:
					return
				}
			}
		}
	}
}

// Close closes the store. It waits for queries to end.
func (p *Past) Close() error {
	if p == nil {
		return nil
	}
	p.write.Lock()
	defer p.write.Unlock()
	p.closed = true
	return p.shut()
}

// path returns the path of something in the folder.
func (p *Past) path(name ...string) string { return filepath.Join(append([]string{p.dir}, name...)...) }

// say publishes what happened to the past.
func (p *Past) say(severity gpu.Severity, format string, values ...any) {
	p.o.Event(gpu.Event{Time: time.Now(), Code: gpu.EventPast, Severity: severity, Text: fmt.Sprintf(format, values...)})
}

// failures passes on only errors: the storage logs a lot about its daily work.
type failures struct{ slog.Handler }

// Enabled reports whether a line is passed on.
func (h failures) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelError && h.Handler.Enabled(ctx, l)
}
