package past

import (
	"io/fs"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/berth-gpu/berth/internal/text/words"
)

// counts holds numbers about the store. They can be read while the store hangs in a disk.
type counts struct {
	samples, dropped       atomic.Uint64
	recentBytes, longBytes atomic.Int64
	otherBytes             atomic.Int64 // of files put aside, and ahead of the clock
	recentSeries           atomic.Int64
	longSeries             atomic.Int64
	oldest                 atomic.Int64 // in milliseconds; 0 if there is no sample
	written                atomic.Value // a time.Time, when samples were last stored; none if never
	began                  atomic.Value // a time.Time, when Run began; none if it has not
	resumed                atomic.Value // a time.Time, when the last pause ended; none if there was none
	suspected              atomic.Bool  // a block may be damaged
	waiting                atomic.Bool  // it stores nothing now
}

// Cost says what the past costs, and how far back it goes.
type Cost struct {
	Bytes   int64     // on disk, in all
	Limit   int64     // most bytes on disk
	Series  int64     // in memory, of both stores
	Samples uint64    // stored since the daemon started
	Dropped uint64    // not stored
	Oldest  time.Time // of the oldest sample; zero if there is none
	Written time.Time // when samples were last stored; zero if not since the daemon started
	Paused  bool      // nothing is stored now
	Resumed time.Time // when the last pause ended; zero if there was none since the daemon started
}

// Cost returns what the past costs. It reads no file.
func (p *Past) Cost() Cost {
	if p == nil {
		return Cost{}
	}
	n := &p.counted
	c := Cost{
		Bytes: n.recentBytes.Load() + n.longBytes.Load() + n.otherBytes.Load(), Limit: int64(p.limits.Load().Size) << 20,
		Series: n.recentSeries.Load() + n.longSeries.Load(), Samples: n.samples.Load(), Dropped: n.dropped.Load(), Paused: n.waiting.Load(),
	}
	if t := n.oldest.Load(); t != 0 {
		c.Oldest = time.UnixMilli(t)
	}
	c.Written, _ = n.written.Load().(time.Time)
	c.Resumed, _ = n.resumed.Load().(time.Time)
	return c
}

// Behind returns for how long nothing was stored although the store is on. It returns 0
// before Run, and while the store is off or pauses, which an event has reported.
func (p *Past) Behind(now time.Time) time.Duration {
	if !p.On() || p.counted.waiting.Load() {
		return 0
	}
	since, _ := p.counted.began.Load().(time.Time)
	if written, _ := p.counted.written.Load().(time.Time); written.After(since) {
		since = written
	}
	if since.IsZero() {
		return 0
	}
	return now.Sub(since)
}

// Text says how much the past takes and how far back it goes. It returns "" if there is
// no store.
func (p *Past) Text() string {
	if p == nil {
		return ""
	}
	c := p.Cost()
	size := "The past takes " + mebibytes(c.Bytes) + " MiB"
	switch {
	case !p.On() && c.Bytes == 0:
		return "The past is off"
	case !p.On():
		return "The past is off. An earlier one takes " + mebibytes(c.Bytes) + " MiB in " + p.dir
	case c.Paused:
		return size + ". It pauses, and an event with the code past says why"
	case c.Oldest.IsZero():
		return size + " of " + mebibytes(c.Limit) + ", and has nothing yet"
	}
	return size + " of " + mebibytes(c.Limit) + ", back to " + c.Oldest.Format("2006-01-02 15:04")
}

// mebibytes formats a size in whole MiB, with commas. Any size above 0 is at least 1 MiB.
func mebibytes(bytes int64) string { return words.Thousands((bytes + 1<<20 - 1) >> 20) }

// measure updates how much the stores take. The caller holds write.
func (p *Past) measure() {
	n := &p.counted
	n.otherBytes.Store(Size(p.path(AsideName)) + Size(p.path(aheadName)))
	if p.recent == nil {
		n.recentBytes.Store(Size(p.path(recentKind.name)))
		n.longBytes.Store(Size(p.path(longKind.name)))
		return
	}
	n.recentBytes.Store(p.recent.bytes())
	n.longBytes.Store(p.long.bytes())
	n.recentSeries.Store(int64(p.recent.db.Head().NumSeries()))
	n.longSeries.Store(int64(p.long.db.Head().NumSeries()))
	if t := min(p.recent.oldest(), p.long.oldest()); t != 1<<63-1 {
		n.oldest.Store(t)
	}
}

// onDisk returns how much space a file takes on the disk.
func onDisk(info fs.FileInfo) int64 {
	if s, known := info.Sys().(*syscall.Stat_t); known {
		return s.Blocks * 512
	}
	return info.Size()
}

// Size returns how much space the files in a folder take, or 0 if there is no folder.
func Size(folder string) (sum int64) {
	_ = filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				sum += onDisk(info)
			}
		}
		return nil // a file that goes meanwhile takes nothing
	})
	return sum
}
