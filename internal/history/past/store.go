package past

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/compression"
)

// kind is the layout of one of the two stores.
type kind struct {
	name    string
	block   time.Duration // time that is collected in memory before it becomes a file
	largest time.Duration // longest time that joined files cover
	chunk   int           // samples in a chunk
}

// The kinds of store. Short blocks take little memory. Long chunks take little space: a
// sample that does not change takes two bits, and each chunk has 30 bytes besides its
// samples.
var (
	recentKind = kind{"recent", 30 * time.Minute, 270 * time.Minute, 960}
	longKind   = kind{"long", 6 * time.Hour, 162 * time.Hour, 960}
)

const (
	// late is how much older than the newest sample another sample may be. It covers a
	// clock that is set back a little.
	late = 2 * time.Hour
	// reloadEvery is how often the storage looks for new blocks and surplus ones. It also
	// does so when it makes one.
	reloadEvery = 10 * time.Minute
	// chunkFile is the space that the storage reserves for a file of chunks before it
	// writes it. The default of 512 MiB fails on a disk with less room.
	chunkFile = 16 << 20
	// walSegment is the size of a file of the log that survives kill -9. Small files are
	// removed sooner.
	walSegment = 1 << 20
)

// store is one of Prometheus' databases.
type store struct {
	kind
	dir    string
	db     *tsdb.DB
	newest int64 // newest time in it; the least number if it is empty
	// began is the first time that came after the store was opened with nothing in
	// memory. It is the greatest number if none came yet, and the least if something was
	// in memory.
	began atomic.Int64
}

// memory returns the time at which the samples in memory begin, or the greatest number if
// there are none.
func (s *store) memory() int64 {
	head := s.db.Head()
	if head.NumSeries() == 0 {
		return math.MaxInt64
	}
	return max(head.MinTime(), s.began.Load())
}

// openStore opens a store, and puts damaged files aside first.
func (p *Past) openStore(k kind) (*store, error) {
	s := &store{kind: k, dir: p.path(k.name), newest: math.MinInt64}
	if err := makeFolder(s.dir); err != nil {
		return nil, err
	}
	o := tsdb.DefaultOptions()
	o.RetentionDuration = 0 // surplus decides instead
	o.MinBlockDuration, o.MaxBlockDuration = k.block.Milliseconds(), k.largest.Milliseconds()
	o.WALSegmentSize, o.WALCompression = walSegment, compression.Snappy
	o.MaxBlockChunkSegmentSize = chunkFile
	o.NoLockfile = true // the state folder has only one daemon
	o.StripeSize = 64
	o.SamplesPerChunk = k.chunk
	o.OutOfOrderTimeWindow = late.Milliseconds()
	o.HeadChunksWriteBufferSize = 64 << 10
	o.FloatChunkEncoding = chunkenc.EncXOR // EncXOR2 is larger from 127 samples on
	o.WALReplayConcurrency = 1
	o.BlocksToDelete = p.surplus(s)
	o.BlockQuerierFunc = p.watched
	o.BlockReloadInterval = reloadEvery
	db, err := p.mend(s, o)
	if err != nil {
		return nil, fmt.Errorf("open the past: %w", err)
	}
	s.db = db
	db.DisableCompactions() // Tidy compacts, where a fault can be caught
	s.began.Store(math.MaxInt64)
	if head := db.Head(); head.NumSeries() > 0 {
		s.newest = head.MaxTime()
		s.began.Store(math.MinInt64)
	}
	for _, b := range db.Blocks() {
		s.newest = max(s.newest, b.Meta().MaxTime-1)
	}
	return s, nil
}

func (s *store) close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close %s: %w", s.dir, err)
	}
	s.noteSizes()
	return nil
}

// wrote records that a sample of a time was written.
func (s *store) wrote(t int64) {
	s.newest = max(s.newest, t)
	s.began.CompareAndSwap(math.MaxInt64, t)
}

// oldest returns the time of the oldest sample, or the greatest number if there is none.
func (s *store) oldest() int64 {
	t := s.memory()
	for _, b := range s.db.Blocks() {
		t = min(t, b.Meta().MinTime)
	}
	return t
}

// holes returns the times between from and to, both included, for which the store has
// nothing.
func (s *store) holes(from, to int64) (list [][2]int64) {
	next := from
	for _, h := range s.held() {
		if h[0] > to {
			break
		}
		if h[0]-next > step { // a block begins with its first sample
			list = append(list, [2]int64{next, h[0] - 1})
		}
		next = max(next, h[1])
	}
	if next <= to {
		list = append(list, [2]int64{next, to})
	}
	return list
}

// cut cuts the time between from and to, both included, where one block or the memory
// follows another, so that a query of each piece reads only one. It does not cut where
// blocks overlap.
func (s *store) cut(from, to int64) (list [][2]int64) {
	next, end := from, int64(math.MinInt64)
	for _, h := range s.held() {
		if h[0] > to {
			break
		}
		if h[0] >= end && end > next {
			list = append(list, [2]int64{next, h[0] - 1})
			next = h[0]
		}
		end = max(end, h[1])
	}
	if next <= to {
		list = append(list, [2]int64{next, to})
	}
	return list
}

// held returns the times of the blocks and of the memory, in the order in which they
// start. Their ends are not included.
func (s *store) held() (list [][2]int64) {
	for _, b := range s.db.Blocks() {
		list = append(list, [2]int64{b.Meta().MinTime, b.Meta().MaxTime})
	}
	list = append(list, [2]int64{s.memory(), math.MaxInt64})
	slices.SortFunc(list, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
	return list
}

// compact writes samples that are old enough from memory to files, and joins files. It
// does nothing while there is nothing to write: asking the storage costs a look at every
// block.
func (s *store) compact(ctx context.Context) error {
	head := s.db.Head()
	if head.NumSeries() == 0 {
		return nil
	}
	s.db.ForceHeadMMap() // full chunks need not stay in memory
	if head.MaxTime()-head.MinTime() <= s.block.Milliseconds()*3/2 {
		return nil
	}
	if err := s.db.Compact(ctx); err != nil {
		return fmt.Errorf("tidy up %s: %w", s.name, err)
	}
	return nil
}

// bytes returns how much space the store takes on disk.
func (s *store) bytes() int64 {
	sum := s.db.Head().Size()
	for _, b := range s.db.Blocks() {
		sum += b.Size()
	}
	return sum
}
